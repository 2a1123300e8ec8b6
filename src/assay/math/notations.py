"""List the notations of answers, in one table: signs and commands, and what each stands for."""

from typing import Final

from assay.math.words import TableRow, meanings

NOTATIONS: Final = (
    TableRow("sign", "−↦- –↦- —↦- ‐↦- ‑↦- ﹣↦- －↦- ＋↦+ ∗↦* ＝↦= ＜↦< ＞↦> ％↦% ∕↦/ ⁄↦/ ／↦/ ′↦' ’↦' ‘↦' “↦\" ”↦\" ∣↦|", "signs of other fonts and alphabets", "-5", "−5", True),
    TableRow("sign", "，↦, 、↦, ；↦; ：↦: （↦( ）↦) ［↦[ ］↦] ｛↦{ ｝↦} 。↦.", "punctuation of other alphabets", "(1, 2)", "（1，2）", True),
    TableRow("sign", r"×↦\times ✕↦\times ·↦\cdot ⋅↦\cdot ∙↦\cdot •↦\cdot ÷↦\div ±↦\pm ∓↦\mp √↦\surd ∛↦\sqrt[3] ∞↦\infty π↦\pi ∑↦\sum ∏↦\prod ∫↦\int ∂↦\partial ∠↦\angle", "signs of operations", r"2\sqrt{3}", "√12", True),
    TableRow("sign", r"≠↦\neq ≤↦\leq ≥↦\geq ⩽↦\leq ⩾↦\geq ≦↦\leq ≧↦\geq ≈↦\approx ≡↦\equiv →↦\to ∈↦\in ∉↦\notin ∨↦\lor ∧↦\land", "signs of relations", r"x \le 3", "x ≤ 3", True),
    TableRow("sign", r"∪↦\cup ∩↦\cap ∖↦\setminus ∅↦\emptyset ℝ↦\mathbb{R} ℤ↦\mathbb{Z} ℕ↦\mathbb{N} ℚ↦\mathbb{Q} ℂ↦\mathbb{C}", "signs of sets", r"(-\infty, 1) \cup (2, \infty)", "(−∞, 1) ∪ (2, ∞)", True),
    TableRow("sign", r"⟨↦\langle ⟩↦\rangle ⌊↦\lfloor ⌋↦\rfloor ⌈↦\lceil ⌉↦\rceil …↦\ldots ⋯↦\ldots °↦^{\circ} º↦^{\circ} ¢↦\text{cents} Å↦\text{angstrom}", "brackets, dots and units", r"90^\circ", "90°", True),
    TableRow("sign", r"¼↦\frac14 ½↦\frac12 ¾↦\frac34 ⅓↦\frac13 ⅔↦\frac23 ⅕↦\frac15 ⅙↦\frac16 ⅛↦\frac18 ⅜↦\frac38 ⅝↦\frac58 ⅞↦\frac78", "fractions", r"\frac{5}{2}", "2½", True),
    TableRow(
        "sign",
        r"α↦\alpha β↦\beta γ↦\gamma δ↦\delta ε↦\epsilon η↦\eta θ↦\theta κ↦\kappa λ↦\lambda μ↦\mu µ↦\mu ν↦\nu ξ↦\xi ρ↦\rho σ↦\sigma τ↦\tau φ↦\phi "
        r"ϕ↦\phi χ↦\chi ψ↦\psi ω↦\omega Δ↦\Delta Ω↦\Omega Π↦\Pi Σ↦\Sigma Φ↦\Phi ℓ↦\ell ħ↦\hbar ℏ↦\hbar",
        "Greek letters", r"2\theta", "2θ", True,
    ),
    TableRow("relation", r"=↦= ==↦= \equiv↦mod \approx↦about \simeq↦about", "equality; what follows ≈ says it again", r"\sqrt{2}", r"\sqrt{2} \approx 1.414", True),
    TableRow("relation", r"<↦< >↦> <=↦<= >=↦>= !=↦!= \lt↦< \gt↦> \leq↦<= \le↦<= \leqslant↦<= \geq↦>= \ge↦>= \geqslant↦>= \neq↦!= \ne↦!=", "orders, which may be turned round", "x > 3", "3 < x", True),
    TableRow("relation", r"\in↦in \notin↦not_in \to↦to \rightarrow↦to", "relations that may not", r"p \to q", r"q \to p", False),
    TableRow("set operation", r"\cup↦union \cap↦intersection \setminus↦difference \backslash↦difference", "operations with sets", r"(1, 2) \cup (3, 4)", r"(1, 2) \cap (3, 4)", False),
    TableRow("times", r"* \cdot \times \ast", "products", "6x", r"2 \cdot 3x", True),
    TableRow("divided", r"/ \div", "and quotients", r"\frac{x}{2}", r"x \div 2", True),
    TableRow("logic", r"\lor↦or \vee↦or \land↦and \wedge↦and", "logic joins relations alone", r"p \land q", r"p \lor q", False),
    TableRow("decoration", r"\vec \hat \bar \tilde \overrightarrow \widehat \dot \mathcal \mathfrak \mathscr \underline \overline \widetilde", "marks that make another name of a letter", r"\hat{x}", "x", False),
    TableRow("font", r"\mathrm \mathbf \mathit \mathsf \boldsymbol \bm \mathnormal", "fonts that do not", r"\mathbf{x}+1", "1+x", True),
    TableRow("vector", r"\vec \overrightarrow \mathbf \boldsymbol \bm", "the product × of vectors is no product of numbers", r"\vec{a} \times \vec{b}", r"\vec{b} \times \vec{a}", False),
    TableRow("grid", "pmatrix bmatrix matrix Bmatrix smallmatrix array vmatrix cases", "matrices, whatever stands around them", r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{bmatrix}1&2\end{bmatrix}", True),
    TableRow("modulus", r"\pmod \mod \bmod", "congruences: the remainder and the modulus count", r"n \equiv 2 \pmod 3", r"n \equiv 1 \pmod 3", False),
    TableRow("stop", r"\} \rfloor \rceil \rangle \rvert \mid \\ \end \rbrace \% \circ \ldots \dots \cdots \prime \degree \;", "commands that end a product", "50", r"50\%", True),
    TableRow("money", r"\$↦dollars €↦euros £↦pounds ¥↦yen ₹↦rupees", "money has a unit", r"\$13", "€13", False),
    TableRow("comma", ",", "a comma in brackets, or before a space, separates", "(12,102)", "12102", False),
    TableRow("comma", r"{,} ,\!", "one between groups of three digits does not", "12345", r"12{,}345", True),
)  # fmt: skip


def of_kind(*kinds: str) -> dict[str, str]:
    """Every notation of these kinds, and what it stands for."""
    return meanings(NOTATIONS, kinds, "↦")


# A command before a letter needs a space: ∈x is \in x.
SIGNS: Final = {
    sign: f"{meant} " if meant[0] == "\\" and meant[-1].isalpha() else meant for sign, meant in of_kind("sign").items()
}
RELATIONS: Final = {command: meant.replace("_", " ") for command, meant in of_kind("relation").items()}
