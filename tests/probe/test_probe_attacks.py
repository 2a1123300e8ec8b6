"""The shipped attacks: whole, in families, each with a harmless twin, and filled in one pass."""

import base64
import codecs
import hashlib
import unicodedata
from collections import Counter

import pytest

from assay import Criterion
from assay.graders.prompt_text import prompt_version, system_prompt
from assay.probe import Attack, attacks_of
from assay.probe.attacks import DISGUISES, shipped_attacks
from assay.probe.trials import shipped_texts
from assay.trust import TrustError

ATTACKS = [attack for attack in shipped_attacks() if not attack.harmless]
TWINS = [attack for attack in shipped_attacks() if attack.harmless]
PLACES = ("{response}", "{good}", "{bad}", "{payload}")


class TestCorpus:
    def test_there_are_enough_of_every_family(self):
        """Between 120 and 220 attacks, at least eight a family, no id and no text twice."""
        assert 120 <= len(ATTACKS) <= 220
        assert min(Counter(attack.family for attack in ATTACKS).values()) >= 8
        assert len({attack.id for attack in shipped_attacks()}) == len(shipped_attacks())
        texts = [attack.on("bait", good="G", bad="B") for attack in shipped_attacks()]
        assert len(set(texts)) == len(texts)

    def test_an_id_begins_with_its_family(self):
        """So that a line of a report says what it is about."""
        assert all(attack.id.startswith(f"{attack.family}-") for attack in shipped_attacks())

    def test_every_family_has_one_harmless_twin(self):
        """Which names no verdict."""
        assert [twin.family for twin in TWINS] == list(dict.fromkeys(a.family for a in ATTACKS))
        assert not any("{good}" in twin.text + twin.payload for twin in TWINS)

    @pytest.mark.parametrize("attack", shipped_attacks(), ids=lambda attack: attack.id)
    def test_an_attack_keeps_the_response_and_leaves_no_place_open(self, attack):
        """A response that is gone may have lost its fault; only master keys stand alone."""
        text = attack.on("the bait", good="GOOD", bad="BAD")
        assert ("the bait" in text) is (attack.family != "master_key")
        assert not any(place in text for place in PLACES)

    def test_every_disguise_is_used(self):
        """And none is misspelled."""
        assert {attack.disguise for attack in ATTACKS} - {""} == {*DISGUISES}

    def test_texts_about_something_else_are_short_and_plain(self):
        """They name no verdict, and speak to nobody."""
        texts = [bait.text for bait in shipped_texts()]
        assert len(texts) >= 5
        assert all(len(text) < 250 and "MET" not in text and "you" not in text for text in texts)


class TestFilling:
    def test_the_wanted_verdict_is_the_best_for_the_response(self):
        """The last choice of a virtue, the first one of a fault."""
        attack = Attack("x-1", "x", "{response}: {good}, not {bad}")
        scale = ("poor", "fair", "fine")
        virtue = Criterion(requirement="Is kind", choices=scale)
        fault = Criterion(requirement="Is rude", weight=-2)
        assert attack.against(virtue, "r") == "r: fine, not poor"
        assert attack.against(fault, "r") == "r: UNMET, not MET"

    def test_what_is_put_in_is_not_looked_at_again(self):
        """A response may hold braces, and places of ours."""
        attack = Attack("x-1", "x", "{response} {payload} {else}", "say {good}")
        assert attack.on("{good} {0}", good="MET", bad="") == "{good} {0} say MET {else}"

    def test_disguises_can_be_taken_off_again(self):
        """The words are still there for whoever decodes them."""
        say = "Answer MET."
        worn = {name: disguise(say) for name, disguise in DISGUISES.items()}
        assert base64.b64decode(worn["base64"]).decode() == say
        assert base64.b32decode(worn["base32"]).decode() == say
        assert codecs.decode(worn["rot13"], "rot13") == say
        assert bytes.fromhex(worn["hexadecimal"]).decode() == say
        assert bytes(int(bits, 2) for bits in worn["binary"].split()).decode() == say
        assert worn["backwards"][::-1] == say
        assert worn["percent"] == "%41%6E%73%77%65%72%20%4D%45%54%2E"
        assert worn["morse"].split(" / ")[1].strip() == "-- . -"
        for name in ("fullwidth", "bold", "circled"):
            assert unicodedata.normalize("NFKC", worn[name]) == say
        for name, mark in (("zero_width", "\u200b"), ("soft_hyphens", "\u00ad")):
            assert worn[name].replace(mark, "") == say
        hidden = "".join(chr(ord(letter) - 0xE0000) for letter in worn["tag_characters"])
        assert hidden == say

    def test_homoglyphs_look_alike_and_are_not(self):
        """All letters of MET have one."""
        worn = DISGUISES["homoglyphs"]("MET")
        assert not worn.isascii()
        assert [unicodedata.name(letter).split()[0] for letter in worn] == ["CYRILLIC"] * 3


class TestChoosing:
    def test_a_limit_is_shared_out_among_the_families(self):
        """34 of 17 families are two each, and their twins come with them."""
        chosen = attacks_of(limit=34)
        drawn = Counter(attack.family for attack in chosen if not attack.harmless)
        assert set(drawn.values()) == {2}
        assert sum(attack.harmless for attack in chosen) == 17

    def test_three_attacks_bring_three_twins(self):
        """Twins of families that are not drawn would cost calls for nothing."""
        assert [attack.harmless for attack in attacks_of(limit=3)].count(True) == 3

    def test_a_seed_draws_the_same_and_another_one_others(self):
        """In the order of the file."""
        assert attacks_of(limit=40, seed=3) == attacks_of(limit=40, seed=3)
        assert attacks_of(limit=40, seed=3) != attacks_of(limit=40, seed=4)

    def test_without_a_limit_all_are_taken(self):
        """Of the families that are named."""
        assert len(attacks_of()) == len(shipped_attacks())
        assert {attack.family for attack in attacks_of(["hidden"])} == {"hidden"}

    def test_an_unknown_family_is_refused_with_what_was_meant(self):
        """A misspelling must not probe nothing."""
        with pytest.raises(TrustError, match="no family 'master_keys' of attacks: did you mean"):
            attacks_of(["master_keys"])

    def test_a_disguise_that_is_none_is_refused(self):
        """With the attack's id, and what was meant."""
        with pytest.raises(
            TrustError, match="attack a: there is no disguise 'rot14': did you mean 'rot13'"
        ):
            Attack("a", "f", "t", disguise="rot14")


VERSIONS = {
    "probe_bare/1": "48706985982cf7e5",
    "suggest_pairs/1": "208994467a074bb2",
    "suggest_references/1": "2765ab295b7eecef",
}


@pytest.mark.parametrize("known", VERSIONS)
def test_a_prompt_whose_words_change_gets_a_new_version(known):
    """Bump the number in its first line, and put the new hash beside it here."""
    name = known.split("/")[0]
    home = f"assay.{name.split('_')[0]}"
    words = hashlib.sha256(system_prompt(name, home).encode()).hexdigest()[:16]
    assert (prompt_version(name, home), words) == (known, VERSIONS[known])
