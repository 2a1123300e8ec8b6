"""Ask a model: one async function, a `Request` in and a `Reply` out.

model           Request, Reply, Model: the interface, and all that a grader needs
resolve         model_of, configure, default_model: a name, an address, a client or a function as a Model
endpoint_model  a model behind an endpoint: budget, limits, and a reply that is read
payload         what is sent; openai, anthropic, gemini write it, http and sdk send it
structured      the value of a schema in what a model wrote
limiter         how many calls go at once and a minute; retry, when to try again
providers       addresses, keys and prices
budgets         budget, dry_run: what a run asks for and spends, and how much it may
reply_cache     a model that is not asked twice; judge_log, what judges were asked and said

The names load when first used: a rubric that asks no model pays for none of it.
"""

from assay.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
