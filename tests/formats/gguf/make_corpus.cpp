// make_gguf_corpus FOLDER: writes each seed to FOLDER/NAME.gguf.

#include <cstdio>
#include <fstream>

#include "corpus.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: make_gguf_corpus FOLDER\n", stderr), 2;
  for (const bp::gguf::Seed& seed : bp::gguf::make_seeds()) {
    std::ofstream file(std::string(argv[1]) + "/" + seed.name + ".gguf", std::ios::binary);
    if (!(file << seed.bytes))
      return std::fprintf(stderr, "cannot write %s\n", seed.name.c_str()), 1;
  }
}
