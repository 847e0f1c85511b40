"""llama.cpp's own server, in a process of its own: python -m tests.support.llama_server PORT GGUF
METHOD. METHOD: none, ngram-simple, or draft-simple with the model as its own drafter."""

import signal
import sys
import time


def main(port: int, gguf: str, method: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.hostnames, params.port, params.ui = ["127.0.0.1"], port, False
    params.model.path, params.model_alias = gguf, {"smol"}
    params.n_ctx, params.n_parallel = 2048, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    if method != "none":
        kinds = xllamacpp.common_speculative_type
        name = f"COMMON_SPECULATIVE_TYPE_{method.upper().replace('-', '_')}"
        params.speculative.types = [getattr(kinds, name)]
        params.speculative.ngram_simple.size_n = 3
        params.speculative.ngram_simple.size_m = 4
    if method == "draft-simple":
        params.speculative.draft.mparams.path = gguf
        params.speculative.draft.n_max = 3
    server = xllamacpp.Server(params)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
