// The built plugins as a loader sees them: one exported symbol, the standard libraries and nothing
// else, no code run before it is asked for, a query that agrees with the manifest.

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "backplane/plugin.h"
#include "backplane/sampler.h"
#include "core/plugin/manifest.hpp"
#include "sdk/conformance/probe/elf_file.hpp"

namespace bp::abi {
namespace {

using conformance::ElfFile;
using conformance::read_elf;

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

std::vector<std::string> built_libraries() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(BUILT_PLUGIN_DIR)) {
    if (entry.path().extension() == ".so") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string plugin_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = fs::path(info.param).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

// A library or symbol that only a build with sanitizers needs.
bool is_sanitizer(const std::string& name) {
  static const std::regex pattern("(lib|__)(asan|ubsan|tsan|sanitizer)[._].*");
  return std::regex_match(name, pattern);
}

// What loading must leave as it was (A13).
struct ProcessState {
  std::string folder = fs::current_path().string();
  std::string locale = std::setlocale(LC_ALL, nullptr);
  int rounding = std::fegetround();
  int float_exceptions = fegetexcept();
  std::vector<std::string> environment;
  std::vector<void*> handlers;
  std::ptrdiff_t n_threads = 0;

  ProcessState() {
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    for (int signal = 1; signal < NSIG; ++signal) {
      struct sigaction action {};
      sigaction(signal, nullptr, &action);
      handlers.push_back(reinterpret_cast<void*>(action.sa_handler));
    }
    n_threads = std::distance(fs::directory_iterator("/proc/self/task"), {});
  }
  bool operator==(const ProcessState&) const = default;
};

double cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

class BuiltPlugin : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    handle_ = dlopen(GetParam().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    query_ = reinterpret_cast<bp_plugin_query_fn>(dlsym(handle_, "bp_plugin_query"));
    ASSERT_NE(query_, nullptr);
  }
  void TearDown() override {
    if (handle_ != nullptr) dlclose(handle_);
  }
  static plugin::Manifest manifest() {
    auto read = plugin::read_manifest(fs::path(GetParam()).replace_extension(".plugin.yaml"));
    if (!read.ok()) throw std::runtime_error(read.status().message());
    return std::move(read).value();
  }

  void* handle_ = nullptr;
  bp_plugin_query_fn query_ = nullptr;
};

TEST_P(BuiltPlugin, ExportsTheQueryAlone) {
  EXPECT_THAT(read_elf(GetParam()).exported, ElementsAre("bp_plugin_query"));
}

TEST_P(BuiltPlugin, NeedsOnlyStandardLibrariesAndThoseOfItsManifest) {
  std::vector<std::string> allowed = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"};
  const auto more = manifest().required_libraries;
  allowed.insert(allowed.end(), more.begin(), more.end());
  const ElfFile elf = read_elf(GetParam());
  ASSERT_THAT(elf.needed, Not(IsEmpty()));
  for (const std::string& library : elf.needed) {
    const bool known = std::count(allowed.begin(), allowed.end(), library) == 1;
    EXPECT_TRUE(known || library.starts_with("ld-linux") || is_sanitizer(library)) << library;
  }
  // Each undefined symbol is found in those; sanitizers' own may come with the program.
  for (const std::string& symbol : elf.undefined) {
    EXPECT_TRUE(dlsym(handle_, symbol.c_str()) != nullptr || is_sanitizer(symbol)) << symbol;
  }
}

TEST_P(BuiltPlugin, HasNoInitialisersOfItsOwn) {
  const ElfFile elf = read_elf(GetParam());
  ASSERT_THAT(elf.local, Not(IsEmpty())) << "stripped: the symbol table says nothing";
  for (const std::string& symbol : elf.local) {
    EXPECT_FALSE(symbol.starts_with("_GLOBAL__sub_I_")) << symbol;
  }
}

TEST_P(BuiltPlugin, AgreesWithItsManifest) {
  const plugin::Manifest manifest = this->manifest();
  const bp_plugin* plugin = query_(BP_ABI_MAJOR);
  ASSERT_NE(plugin, nullptr);
  EXPECT_EQ(plugin->struct_size, sizeof(bp_plugin));
  EXPECT_EQ(plugin->id, manifest.id);
  EXPECT_EQ(plugin->version, manifest.version);
  EXPECT_EQ(plugin->abi_major, manifest.abi_major);
  EXPECT_EQ(plugin->abi_minor, manifest.abi_minor);
  const std::vector<std::string> kinds(plugin->kinds, plugin->kinds + plugin->n_kinds);
  EXPECT_THAT(kinds, UnorderedElementsAreArray(manifest.kinds));
  for (const std::string& kind : kinds) {
    EXPECT_NE(plugin->get_factory(kind.c_str()), nullptr) << kind;
  }
}

TEST_P(BuiltPlugin, HasTheStagesOfItsManifestInThatOrder) {
  const plugin::Manifest manifest = this->manifest();
  std::vector<std::string> listed, built;
  for (const auto& stage : manifest.stages) listed.push_back(stage.name);
  const auto* factory =
      static_cast<const bp_sampler_factory*>(query_(BP_ABI_MAJOR)->get_factory(BP_SAMPLER_ID));
  EXPECT_EQ(factory != nullptr, !listed.empty());
  for (uint32_t i = 0; factory != nullptr && i < factory->n_stages; ++i) {
    built.emplace_back(factory->stages[i].name);
  }
  EXPECT_EQ(built, listed);
}

TEST_P(BuiltPlugin, RefusesAnotherMajorAndUnknownKinds) {
  EXPECT_EQ(query_(999), nullptr);
  const bp_plugin* plugin = query_(BP_ABI_MAJOR);
  for (const char* kind : {"", "bp.backend", "bp.backend/999", "com.example.nonsense/1"}) {
    EXPECT_EQ(plugin->get_factory(kind), nullptr) << kind;
  }
  EXPECT_EQ(plugin->get_factory(nullptr), nullptr);
}

TEST_P(BuiltPlugin, QueryAllocatesNothing) {
  const size_t before = mallinfo2().uordblks;
  const bp_plugin* plugin = query_(BP_ABI_MAJOR);
  const void* factory = plugin->get_factory(plugin->kinds[0]);
  EXPECT_EQ(mallinfo2().uordblks, before);
  EXPECT_EQ(query_(BP_ABI_MAJOR), plugin);
  EXPECT_EQ(plugin->get_factory(plugin->kinds[0]), factory);
}

// The fixture's own handle would make these two see a library that is loaded already.
class PluginLoading : public ::testing::TestWithParam<std::string> {};

TEST_P(PluginLoading, TakesLessThan100msAndLeavesTheProcessAlone) {
  ASSERT_EQ(dlopen(GetParam().c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
  const ProcessState before;
  const double start_ms = cpu_ms();
  void* handle = dlopen(GetParam().c_str(), RTLD_NOW | RTLD_LOCAL);
  const double load_ms = cpu_ms() - start_ms;
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto query = reinterpret_cast<bp_plugin_query_fn>(dlsym(handle, "bp_plugin_query"));
  ASSERT_NE(query(BP_ABI_MAJOR), nullptr);
  EXPECT_TRUE(before == ProcessState());
  EXPECT_LT(load_ms, 100);
  dlclose(handle);
}

TEST(BuiltPlugins, AreAllThere) {
  std::vector<std::string> names;
  for (const std::string& path : built_libraries()) names.push_back(fs::path(path).stem().string());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"cpu", "fcfs", "gguf", "reference", "samplers"}));
}

INSTANTIATE_TEST_SUITE_P(Abi, BuiltPlugin, ::testing::ValuesIn(built_libraries()), plugin_name);
INSTANTIATE_TEST_SUITE_P(Abi, PluginLoading, ::testing::ValuesIn(built_libraries()), plugin_name);

}  // namespace
}  // namespace bp::abi
