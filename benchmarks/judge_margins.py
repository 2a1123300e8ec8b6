"""Answer judge requests with a local model: `python judge_margins.py REQUESTS MARGINS --gguf FILE`.

For machines that have a GPU and torch, transformers and gguf, but neither assay nor a network.
REQUESTS is what `judge_prompts.py --write-requests` saved. For each request the model writes its reason
and verdict, as in a judgement; then the margin is the logit of `MET` minus that of `UN` (the first
token of `UNMET`) where the verdict begins. Margins are written as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

BATCH = 200  # requests that are answered together
MAX_TOKENS = 250  # of a reply
VERDICT_START = re.compile(r'"criterion_status"\s*:\s*"')


class Judge:
    """A model in a GGUF file, on the GPU."""

    def __init__(self, gguf: Path) -> None:
        self.torch: Any = import_module("torch")
        transformers: Any = import_module("transformers")
        source = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(**source)
        self.tokenizer.padding_side = "left"
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            **source, dtype=self.torch.bfloat16
        )
        self.model: Any = model.cuda().eval()

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the text that the model continues."""
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )

    def count_tokens(self, prompt: str) -> int:
        return len(self.tokenizer(prompt)["input_ids"])

    def _batches(self, texts: Sequence[str], size: int) -> Iterator[tuple[list[int], Any]]:
        """Yield indices and encoded texts, those of similar length together."""
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        for start in range(0, len(texts), size):
            indices = by_length[start : start + size]
            batch = [texts[index] for index in indices]
            encoded = self.tokenizer(
                batch, return_tensors="pt", padding=True, add_special_tokens=False
            )
            yield indices, encoded.to("cuda")

    def reply(self, prompts: Sequence[str]) -> list[str]:
        """Return the likeliest reply to each prompt."""
        replies = [""] * len(prompts)
        end_of_turn = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        for indices, encoded in self._batches(prompts, BATCH):
            with self.torch.no_grad():
                output = self.model.generate(
                    **encoded,
                    max_new_tokens=MAX_TOKENS,
                    do_sample=False,
                    eos_token_id=[end_of_turn, self.tokenizer.eos_token_id],
                )
            prompt_length = encoded["input_ids"].shape[1]
            for index, tokens in zip(indices, output, strict=True):
                replies[index] = self.tokenizer.decode(
                    tokens[prompt_length:], skip_special_tokens=True
                )
        return replies

    def find_margins(self, texts: Sequence[str]) -> list[float]:
        """Return the margin of MET over UNMET as the next token of each text."""
        met, unmet = (
            self.tokenizer(word, add_special_tokens=False)["input_ids"][0]
            for word in ("MET", "UNMET")
        )
        margins = [0.0] * len(texts)
        for indices, encoded in self._batches(texts, 32):
            with self.torch.no_grad():
                logits = self.model(**encoded, logits_to_keep=1).logits[:, -1].float()
            for index, row in zip(indices, logits, strict=True):
                margins[index] = (row[met] - row[unmet]).item()
        return margins


def cut_at_verdict(reply: str) -> str:
    """Return a reply up to where its verdict begins; a bare verdict if it has none."""
    start = VERDICT_START.search(reply)
    return reply[: start.end()] if start else '{"criterion_status": "'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("requests", type=Path)
    parser.add_argument("margins", type=Path)
    parser.add_argument("--gguf", type=Path, required=True, help="the file with the model")
    options = parser.parse_args()
    lines = options.requests.read_text(encoding="utf-8").splitlines()
    requests = [json.loads(line) for line in lines]
    judge = Judge(options.gguf)
    prompts = [judge.render(request.pop("messages")) for request in requests]
    replies = judge.reply(prompts)
    margins = judge.find_margins(
        [prompt + cut_at_verdict(reply) for prompt, reply in zip(prompts, replies, strict=True)]
    )
    with options.margins.open("w", encoding="utf-8") as file:
        for request, prompt, margin in zip(requests, prompts, margins, strict=True):
            answer = {
                "judge": options.gguf.stem,
                "input_tokens": judge.count_tokens(prompt),
                "margin": margin,
            }
            file.write(json.dumps({**request, **answer}) + "\n")


if __name__ == "__main__":
    main()
