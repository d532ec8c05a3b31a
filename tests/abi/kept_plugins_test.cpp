// Plugins as they were compiled for a version of the ABI: those that this program may load still
// work, the others are refused in a sentence. See kept/make_kept.py.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "backplane/format.h"
#include "backplane/sampler.h"
#include "backplane/scheduler.h"
#include "core/plugin/backend.hpp"
#include "core/plugin/catalog.hpp"
#include "core/plugin/compatibility.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/op_kernels.hpp"
#include "core/plugin/sampler.hpp"
#include "core/plugin/scheduler.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::abi {
namespace {

namespace fs = std::filesystem;
using plugin::AbiVersion;
using plugin::Catalog;
using plugin::CatalogEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr AbiVersion kOwn = {BP_ABI_MAJOR, BP_ABI_MINOR};

fs::path data_folder() {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  return fs::path(source == nullptr ? "." : source) / "tests/abi/data";
}

// Every kept plugin, of all versions.
std::vector<CatalogEntry> kept_plugins() {
  std::vector<CatalogEntry> all;
  for (const auto& folder : fs::directory_iterator(data_folder())) {
    const auto catalog = Catalog::scan({folder.path().string()});
    EXPECT_TRUE(catalog.ok());
    for (const CatalogEntry& entry : catalog->entries()) all.push_back(entry);
  }
  return all;
}

AbiVersion version_of(const CatalogEntry& entry) {
  return {entry.manifest.abi_major, entry.manifest.abi_minor};
}

using LibraryPtr = std::shared_ptr<const plugin::Library>;
using Trial = void (*)(const plugin::Library&);

void try_scheduler(const plugin::Library& library) {
  const plugin::HostServices host;
  const auto* factory = library.factory<bp_scheduler_factory>(BP_SCHEDULER_ID);
  const auto scheduler = plugin::SchedulerHandle::create(factory, host.get(), {});
  ASSERT_TRUE(scheduler.ok()) << scheduler.status().message();
  auto snapshot = make_growable<bp_snapshot>();
  snapshot.n_seqs = 2;
  uint32_t n_tokens[2] = {};
  auto decision = make_growable<bp_decision>();
  decision.n_seqs = 2;
  decision.n_tokens = n_tokens;
  ASSERT_TRUE(scheduler->schedule(snapshot, decision).ok());
  EXPECT_THAT(n_tokens, ElementsAre(1u, 1u));
}

void try_sampler(const plugin::Library& library) {
  const plugin::HostServices host;
  const auto* factory = library.factory<bp_sampler_factory>(BP_SAMPLER_ID);
  const auto sampler = plugin::SamplerHandle::create(factory, host.get(), {});
  ASSERT_TRUE(sampler.ok()) << sampler.status().message();
  const auto stage = (*sampler)->find_stage("only_last");
  ASSERT_TRUE(stage.has_value());
  const auto state = (*sampler)->make_state(*stage, {}, 5);
  ASSERT_TRUE(state.ok() && state->has_value());
  float logits[5] = {4, 3, 2, 1, 0.5f};
  bp_candidate candidates[5] = {};
  auto row = make_growable<bp_sample_row>();
  row.n_vocab = 5;
  row.logits = logits;
  row.candidates = candidates;
  ASSERT_TRUE((*state)->apply(row).ok());
  EXPECT_EQ(row.n_candidates, 1u);
  EXPECT_EQ(candidates[0].id, 4);
  EXPECT_EQ(candidates[0].logit, 0.5f);
}

void try_format(const plugin::Library& library) {
  const plugin::HostServices host;
  const auto format = copy_growable(library.factory<bp_format>(BP_FORMAT_ID));
  const std::string path = ::testing::TempDir() + "model.kept";
  std::ofstream(path, std::ios::binary) << "KEPT1234";
  EXPECT_EQ(format.probe(path.c_str(), 0, reinterpret_cast<const uint8_t*>("KEPT1234"), 8), 100u);
  bp_model_file* opened = nullptr;
  bp_error error{};
  ASSERT_EQ(format.open(host.get(), path.c_str(), &opened, &error), BP_OK) << error.message;
  const bp_model_file model = copy_growable(opened);
  ASSERT_EQ(model.n_tensors, 1u);
  EXPECT_EQ(view(model.tensors[0].name), "value");
  EXPECT_EQ(model.tensors[0].offset, 4u);
  EXPECT_EQ(model.files[0], path);
  format.close(opened);
}

void try_backend(const plugin::Library& library) {
  using conformance::TinyLlama;
  const plugin::HostServices host;
  TinyLlama llama;
  const auto* factory = library.factory<bp_backend_factory>(BP_BACKEND_ID);
  const auto backend = plugin::BackendHandle::create(factory, host.get(), {});
  ASSERT_TRUE(backend.ok()) << backend.status().message();
  const auto obstacles = backend->check(llama.program());
  ASSERT_TRUE(obstacles.ok() && obstacles->empty());
  auto options = make_growable<bp_compile_options>();
  options.required = uint64_t{1} << 63;
  EXPECT_EQ(backend->compile(llama.program(), options).status().code(), Code::kUnsupported);
  options.required = 0;
  const auto executable = backend->compile(llama.program(), options);
  ASSERT_TRUE(executable.ok()) << executable.status().message();
  const auto memory = executable->memory();
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->block_size, 16u);
  EXPECT_EQ(memory->n_groups, 1u);
  const uint32_t n_blocks[] = {4};
  ASSERT_TRUE(executable->kv_allocate(n_blocks).ok());
  ASSERT_TRUE(executable->warm_up(nullptr).ok());
  conformance::BatchBuilder batch;
  batch.add_sequence({3, 7}, 0, {1});
  batch.add_output(0, {1}, TinyLlama::kVocab);
  uint64_t ticket = 0;
  ASSERT_TRUE(executable->submit(batch.build(), ticket).ok());
  ASSERT_TRUE(executable->collect(ticket).ok());
  std::vector<float> expected(TinyLlama::kVocab);
  expected[8] = 1;
  EXPECT_EQ(batch.output(0), expected);
}

void try_kernels(const plugin::Library& library) {
  const plugin::HostServices host;
  const auto* factory = library.factory<bp_op_kernels_factory>(BP_OP_KERNELS_ID);
  const auto refused = plugin::KernelSetHandle::create(factory, host.get(), "linear", "kept", {});
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  const auto set = plugin::KernelSetHandle::create(factory, host.get(), "activate", "kept", {});
  ASSERT_TRUE(set.ok()) << set.status().message();
  const bp_op_kernels_factory& table = *set->c()->factory;
  auto place = make_growable<bp_kernel_place>();
  place.op = set->c()->op;
  place.name = "test";
  place.n_in = place.n_out = 3;
  place.max_rows = 2;
  ASSERT_EQ(table.accepts(set->c()->set, &place), 1);
  bp_kernel* kernel = nullptr;
  bp_error error{};
  ASSERT_EQ(table.prepare(set->c()->set, &place, &kernel, &error), BP_OK) << error.message;
  const float x[] = {-1, 2, 0, 5, -3, 1};
  float y[6] = {};
  auto call = make_growable<bp_kernel_call>();
  call.n_rows = 2;
  call.x_stride = call.y_stride = 3;
  call.x = x;
  call.y = y;
  for (uint32_t part = 0; part < 2; ++part) {
    ASSERT_EQ(table.run(kernel, &call, part, 2, &error), BP_OK) << error.message;
  }
  EXPECT_THAT(y, ElementsAre(0, 1, 0, 1, 0, 1));
  table.release(kernel);
}

const std::map<std::string, Trial>& trials() {
  static const std::map<std::string, Trial> all = {{BP_BACKEND_ID, try_backend},
                                                   {BP_FORMAT_ID, try_format},
                                                   {BP_OP_KERNELS_ID, try_kernels},
                                                   {BP_SAMPLER_ID, try_sampler},
                                                   {BP_SCHEDULER_ID, try_scheduler}};
  return all;
}

class KeptPlugins : public ::testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__)
    GTEST_SKIP() << "the kept plugins were compiled for x86-64";
#endif
  }
};

TEST_F(KeptPlugins, ThatMayBeLoadedWork) {
  std::set<std::string> tried;
  for (const CatalogEntry& entry : kept_plugins()) {
    if (!plugin::why_incompatible(version_of(entry), kOwn).empty()) continue;
    SCOPED_TRACE(entry.manifest.library);
    ASSERT_TRUE(entry.usable) << entry.reason;
    const auto library = plugin::Library::load(entry.manifest);
    ASSERT_TRUE(library.ok()) << library.status().message();
    for (const std::string& kind : entry.manifest.kinds) {
      trials().at(kind)(**library);
      if (entry.manifest.abi_minor == kOwn.minor) tried.insert(kind);
    }
  }
  EXPECT_EQ(tried.size(), trials().size()) << "run make_kept.py for this version";
}

TEST_F(KeptPlugins, OfAnotherMinorAreRefusedInASentence) {
  size_t n_refused = 0;
  for (const CatalogEntry& entry : kept_plugins()) {
    const std::string why = plugin::why_incompatible(version_of(entry), kOwn);
    if (why.empty()) continue;
    SCOPED_TRACE(entry.manifest.library);
    EXPECT_FALSE(entry.usable);
    EXPECT_EQ(entry.reason, why);
    ++n_refused;
  }
  EXPECT_GT(n_refused, 0u);
}

// A manifest that claims the right version helps nothing.
TEST_F(KeptPlugins, AreAskedForTheirVersionTooAndNotOnlyTheirManifest) {
  for (const CatalogEntry& entry : kept_plugins()) {
    if (plugin::why_incompatible(version_of(entry), kOwn).empty()) continue;
    plugin::Manifest forged = entry.manifest;
    forged.abi_major = kOwn.major;
    forged.abi_minor = kOwn.minor;
    const auto library = plugin::Library::load(forged);
    ASSERT_FALSE(library.ok()) << entry.manifest.library;
    EXPECT_THAT(library.status().message(), HasSubstr("in the manifest"));
  }
}

}  // namespace
}  // namespace bp::abi
