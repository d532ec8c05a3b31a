// `override` of a backend: what is wrong is one line with its place.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/config/config.hpp"
#include "core/plugin/catalog.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::config {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OverrideTest : public ::testing::Test {
 protected:
  OverrideTest() {
    std::ofstream(folder_ / "model.gguf") << "weights";
    write_plugin("fcfs", "kinds: [bp.scheduler/1]");
    write_plugin("samplers", "kinds: [bp.sampler/1]\nstages: [{name: top_k}]");
    write_plugin("cpu", "kinds: [bp.backend/1]\noverridable: [linear, norm]");
    write_plugin("alone", "kinds: [bp.backend/1]");
    write_plugin("mine",
                 "kinds: [bp.op-kernels/1]\nconfig: {tile: {type: int, default: 8, min: 1}}");
    auto scanned = plugin::Catalog::scan({folder_.string()});
    EXPECT_TRUE(scanned.ok());
    catalog_ = std::move(*scanned);
  }

  void write_plugin(const std::string& id, const std::string& more) const {
    std::ofstream(folder_ / (id + ".plugin.yaml"))
        << "schema: 1\nid: " << id << "\nversion: 1.0.0\nabi: \"0.1\"\n"
        << more << "\n";
    std::ofstream(folder_ / (id + ".so")) << "";
  }
  [[nodiscard]] Result<Config> load_backend(const std::string& backend) const {
    const std::string path = (folder_ / "config.yaml").string();
    std::ofstream(path) << "models:\n  - id: demo\n    source: model.gguf\n"
                           "    sampler: {chain: [top_k]}\n    backend: "
                        << backend << "\n";
    return load(path, catalog_);
  }

  const conformance::TemporaryFolder temporary_{"config"};
  const fs::path& folder_ = temporary_.path();
  plugin::Catalog catalog_;
};

TEST_F(OverrideTest, NamesAPluginAloneOrWithItsKeys) {
  const auto config =
      load_backend("{plugin: cpu, override: {linear: mine, norm: {plugin: mine, tile: 4}}}");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto& overrides = config->models[0].backend.overrides;
  ASSERT_EQ(overrides.size(), 2u);
  EXPECT_EQ(overrides[0].op, "linear");
  EXPECT_EQ(overrides[0].plugin, "mine");
  EXPECT_EQ(std::get<int64_t>(overrides[0].params.at("tile")), 8);
  EXPECT_EQ(overrides[1].op, "norm");
  EXPECT_EQ(std::get<int64_t>(overrides[1].params.at("tile")), 4);
}

TEST_F(OverrideTest, EachMistakeIsOneLineWithItsPlace) {
  struct Case {
    const char* backend;
    const char* expected;
  };
  const Case cases[] = {
      {"{override: {linaer: mine}}",
       "config.yaml:5:34: models[0].backend.override.linaer: the unknown op 'linaer' cannot be "
       "overridden on the backend 'cpu'; nearest: linear"},
      {"{override: {attention: mine}}",
       "config.yaml:5:37: models[0].backend.override.attention: 'attention' touches the KV cache"},
      {"{override: {kv_write: mine}}", "'kv_write' touches the KV cache"},
      {"{override: {attend: mine}}", "'attend' touches the KV cache"},
      {"{override: {qkv: mine}}", "the op 'qkv' cannot be overridden on the backend 'cpu'"},
      {"{override: {linear: nobody}}",
       "config.yaml:5:34: models[0].backend.override.linear: no plugin 'nobody' of kind "
       "bp.op-kernels/1"},
      {"{override: {linear: fcfs}}", "plugin 'fcfs' is no bp.op-kernels/1"},
      {"{override: {linear: {tile: 4}}}", "override.linear: the key 'plugin' is missing"},
      {"{override: {linear: {plugin: mine, tile: 0}}}",
       "override.linear.tile: must be at least 1, not 0"},
      {"{override: {linear: {plugin: mine, tiel: 4}}}",
       "override.linear.tiel: unknown key; nearest: tile"},
      {"{override: linear}", "models[0].backend.override: "},
      {"{plugin: alone, override: {linear: mine}}",
       "config.yaml:5:49: models[0].backend.override.linear: the backend 'alone' runs no kernels "
       "of other plugins"},
  };
  for (const Case& c : cases) {
    const auto config = load_backend(c.backend);
    ASSERT_FALSE(config.ok()) << c.backend;
    EXPECT_THAT(config.status().message(), HasSubstr(c.expected)) << c.backend;
  }
}

TEST_F(OverrideTest, OfACommandLine) {
  Backend backend;
  ASSERT_TRUE(add_overrides({"linear=mine"}, catalog_, backend).ok());
  ASSERT_EQ(backend.overrides.size(), 1u);
  EXPECT_EQ(backend.overrides[0].plugin, "mine");
  EXPECT_THAT(add_overrides({"linear"}, catalog_, backend).message(),
              HasSubstr("'linear' is not OP=PLUGIN"));
  EXPECT_THAT(add_overrides({"linear=mine", "linear=mine"}, catalog_, backend).message(),
              HasSubstr("--override:2:"));
}

}  // namespace
}  // namespace bp::config
