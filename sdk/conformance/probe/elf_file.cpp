#include "sdk/conformance/probe/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace bp::conformance {

namespace {

class Image {
 public:
  explicit Image(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0 ||
        bytes_[EI_CLASS] != ELFCLASS64) {
      throw std::runtime_error(path + " is no 64-bit ELF file");
    }
    const auto header = at<Elf64_Ehdr>(0);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * header.e_shentsize));
    }
  }

  // Calls f(entry, string table) for each entry of the sections of a type.
  template <class Entry, class F>
  void for_each(uint32_t section_type, F&& f) const {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != section_type) continue;
      const Elf64_Shdr& strings = sections_.at(section.sh_link);
      for (uint64_t offset = 0; offset < section.sh_size; offset += sizeof(Entry)) {
        f(at<Entry>(section.sh_offset + offset),
          [&](uint64_t name) { return std::string(&bytes_.at(strings.sh_offset + name)); });
      }
    }
  }

 private:
  template <class T>
  [[nodiscard]] T at(uint64_t offset) const {
    if (offset + sizeof(T) > bytes_.size()) throw std::runtime_error("a truncated ELF file");
    T out;
    std::memcpy(&out, bytes_.data() + offset, sizeof out);
    return out;
  }

  std::vector<char> bytes_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

ElfFile read_elf(const std::string& path) {
  const Image image(path);
  ElfFile out;
  image.for_each<Elf64_Sym>(SHT_DYNSYM, [&](const Elf64_Sym& symbol, auto name) {
    if (symbol.st_name == 0) return;
    const auto binding = ELF64_ST_BIND(symbol.st_info);
    if (symbol.st_shndx != SHN_UNDEF) out.exported.push_back(name(symbol.st_name));
    if (symbol.st_shndx == SHN_UNDEF && binding == STB_GLOBAL) {
      out.undefined.push_back(name(symbol.st_name));
    }
  });
  image.for_each<Elf64_Sym>(SHT_SYMTAB, [&](const Elf64_Sym& symbol, auto name) {
    if (symbol.st_shndx != SHN_UNDEF) out.local.push_back(name(symbol.st_name));
  });
  image.for_each<Elf64_Dyn>(SHT_DYNAMIC, [&](const Elf64_Dyn& entry, auto name) {
    if (entry.d_tag == DT_NEEDED) out.needed.push_back(name(entry.d_un.d_val));
  });
  return out;
}

}  // namespace bp::conformance
