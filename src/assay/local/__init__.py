"""The local engine: a model on this machine, with no key and no network.

local_model   LocalModel: what `model_of("local")` gives
llama_server  LocalServer: the engine behind an OpenAI-compatible server, here or in a process of its own
weights       which GGUF files there are, what each was measured at as a judge, and how to fetch one
"""
