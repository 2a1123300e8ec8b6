"""The local engine: a model on this machine, with no key and no network.

local_model   LocalModel: what `model_of("local")` gives
llama_server  LocalServer: the engine behind an OpenAI-compatible server, here or in a process of its own
weights       which GGUF files there are, and what each was measured at as a judge
download      pull: fetch a file, once, and only the very one that is meant
"""
