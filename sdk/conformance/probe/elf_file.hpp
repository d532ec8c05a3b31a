#pragma once
// What a shared object says of itself in its ELF tables. 64-bit, of this machine's byte order.

#include <string>
#include <vector>

namespace bp::conformance {

struct ElfFile {
  std::vector<std::string> exported;   // defined dynamic symbols
  std::vector<std::string> undefined;  // dynamic symbols, weak ones not included
  std::vector<std::string> needed;     // DT_NEEDED
  std::vector<std::string> local;      // all defined symbols of .symtab; empty when stripped
};

// Throws std::runtime_error for a file that cannot be read.
ElfFile read_elf(const std::string& path);

}  // namespace bp::conformance
