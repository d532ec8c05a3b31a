#pragma once
// Seeds for the fuzzer: small files that reach every part of the reader, valid and mean ones.

#include <string>
#include <vector>

namespace bp::gguf {

struct Seed {
  std::string name;
  std::string bytes;
  bool is_valid;
};

std::vector<Seed> make_seeds();

}  // namespace bp::gguf
