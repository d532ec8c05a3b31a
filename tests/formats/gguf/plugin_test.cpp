// The built library, through the ABI.

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <iterator>
#include <vector>

#include "backplane/format.h"
#include "backplane/plugin.h"
#include "fixture.hpp"

namespace bp::gguf {
namespace {

class BuiltPlugin : public testing::Test {
 protected:
  void SetUp() override {
    library_ = ::dlopen(GGUF_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    query_ = reinterpret_cast<bp_plugin_query_fn>(::dlsym(library_, "bp_plugin_query"));
    ASSERT_NE(query_, nullptr);
    plugin_ = query_(BP_ABI_MAJOR);
    ASSERT_NE(plugin_, nullptr);
    format_ = static_cast<const bp_format*>(plugin_->get_factory(BP_FORMAT_ID));
    ASSERT_NE(format_, nullptr);
  }

  void* library_ = nullptr;
  bp_plugin_query_fn query_ = nullptr;
  const bp_plugin* plugin_ = nullptr;
  const bp_format* format_ = nullptr;
};

TEST_F(BuiltPlugin, SaysWhatItIs) {
  EXPECT_EQ(plugin_->struct_size, sizeof(bp_plugin));
  EXPECT_EQ(plugin_->abi_major, BP_ABI_MAJOR);
  EXPECT_EQ(plugin_->abi_minor, BP_ABI_MINOR);
  EXPECT_STREQ(plugin_->id, "gguf");
  EXPECT_STREQ(plugin_->version, "0.1.0");
  ASSERT_EQ(plugin_->n_kinds, 1u);
  EXPECT_STREQ(plugin_->kinds[0], "bp.format/1");
  EXPECT_EQ(plugin_->get_factory("bp.backend/1"), nullptr);
  EXPECT_EQ(query_(BP_ABI_MAJOR + 1), nullptr);
  EXPECT_EQ(format_->struct_size, sizeof(bp_format));
  EXPECT_EQ(format_->read, nullptr);
}

uint32_t probe(const bp_format& format, const std::string& head, uint32_t is_folder = 0) {
  return format.probe("/m", is_folder, reinterpret_cast<const uint8_t*>(head.data()), head.size());
}

TEST_F(BuiltPlugin, ProbesByMagic) {
  EXPECT_EQ(probe(*format_, GgufBuilder().bytes()), 100u);
  EXPECT_EQ(probe(*format_, "GGUF"), 100u);
  EXPECT_EQ(probe(*format_, "GGU"), 0u);
  EXPECT_EQ(probe(*format_, ""), 0u);
  EXPECT_EQ(probe(*format_, "GGML...."), 0u);
  EXPECT_EQ(probe(*format_, "", 1), 0u);
  EXPECT_EQ(format_->probe("/m", 0, nullptr, 0), 0u);
}

TEST_F(BuiltPlugin, OpensAndCloses) {
  TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", GgufBuilder().f32_tensor("t", {1}, {1}).bytes());
  bp_model_file* model = nullptr;
  bp_error error = {};
  ASSERT_EQ(format_->open(nullptr, path.c_str(), &model, &error), BP_OK) << error.message;
  EXPECT_EQ(model->struct_size, sizeof(bp_model_file));
  EXPECT_EQ(model->n_tensors, 1u);
  format_->close(model);
  format_->close(nullptr);
}

TEST_F(BuiltPlugin, ErrorsFillTheCallersStructAndLeaveTheRest) {
  TemporaryFolder folder;
  const std::string path = folder.write("m.gguf", GgufBuilder().version(1).bytes());
  bp_model_file* const untouched = reinterpret_cast<bp_model_file*>(&folder);
  bp_model_file* model = untouched;
  bp_error error = {};
  EXPECT_EQ(format_->open(nullptr, path.c_str(), &model, &error), BP_UNSUPPORTED);
  EXPECT_EQ(error.status, BP_UNSUPPORTED);
  EXPECT_EQ(error.message, path + ": offset 4: version 1; supported are 2 and 3");
  EXPECT_EQ(model, untouched);
  EXPECT_EQ(format_->open(nullptr, path.c_str(), &model, nullptr), BP_UNSUPPORTED);
  EXPECT_EQ(format_->open(nullptr, nullptr, &model, &error), BP_INVALID_ARGUMENT);
  EXPECT_EQ(format_->open(nullptr, path.c_str(), nullptr, &error), BP_INVALID_ARGUMENT);
}

// Names of the defined symbols in the dynamic symbol table of a 64-bit ELF file.
std::vector<std::string> exported_symbols(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string elf((std::istreambuf_iterator<char>(in)), {});
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(elf.data());
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(elf.data() + header->e_shoff);
  std::vector<std::string> names;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const char* strings = elf.data() + sections[sections[i].sh_link].sh_offset;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(elf.data() + sections[i].sh_offset);
    for (uint64_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym); ++s) {
      if (symbols[s].st_shndx != SHN_UNDEF) names.emplace_back(strings + symbols[s].st_name);
    }
  }
  return names;
}

TEST_F(BuiltPlugin, ExportsTheQueryAlone) {
  EXPECT_THAT(exported_symbols(GGUF_LIBRARY), testing::ElementsAre("bp_plugin_query"));
}

}  // namespace
}  // namespace bp::gguf
