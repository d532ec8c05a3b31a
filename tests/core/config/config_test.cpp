// Each mistake in a configuration is one line that names file, line, column, key and remedy.

#include "core/config/config.hpp"
#include "core/config/kv_section.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/config/sizes.hpp"
#include "core/plugin/catalog.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::config {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    fs::create_directory(folder_ / "plugins");
    write("model.gguf", "weights");
    write("broken.jinja", "{% if %}");
    write("empty.jinja", "");
    write_plugin("gguf", "kinds: [bp.format/1]");
    write_plugin("fcfs",
                 "kinds: [bp.scheduler/1]\nconfig: {watermark: {type: float, default: 0.1, "
                 "min: 0, max: 1}}");
    write_plugin("cpu",
                 "kinds: [bp.backend/1]\nconfig:\n"
                 "  isa: {type: string, default: auto, values: [auto, avx2]}\n"
                 "  tune.tile: {type: int, default: 8, min: 1}");
    write_plugin("samplers",
                 "kinds: [bp.sampler/1]\nstages:\n"
                 "  - {name: penalties}\n  - {name: top_k, fields: {top_k: {type: int, default: 0, "
                 "min: 0}}}\n  - {name: typical_p}\n  - {name: top_p}\n  - {name: min_p}\n"
                 "  - {name: temperature, fields: {temperature: {type: float, default: 1, min: 0, "
                 "max: 5}}}");
    auto scanned = plugin::Catalog::scan({(folder_ / "plugins").string()});
    EXPECT_TRUE(scanned.ok());
    catalog_ = std::move(*scanned);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  void write_plugin(const std::string& id, const std::string& more) const {
    write("plugins/" + id + ".plugin.yaml",
          "schema: 1\nid: " + id + "\nversion: 1.0.0\nabi: \"0.1\"\n" + more + "\n");
    write("plugins/" + id + ".so", "");
  }
  [[nodiscard]] Result<Config> load_text(const std::string& text) const {
    write("config.yaml", text);
    return load((folder_ / "config.yaml").string(), catalog_);
  }
  [[nodiscard]] std::string error_of(const std::string& text) const {
    const auto config = load_text(text);
    return config.ok() ? "" : config.status().message();
  }

  const conformance::TemporaryFolder temporary_{"config"};
  const fs::path& folder_ = temporary_.path();
  plugin::Catalog catalog_;
};

TEST_F(ConfigTest, OnlyModelsWithIdAndSourceAreRequired) {
  const auto config = load_text("models: [{id: demo, source: model.gguf}]");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->server.host, "127.0.0.1");
  EXPECT_EQ(config->server.port, 8080);
  ASSERT_EQ(config->models.size(), 1u);
  const Model& model = config->models[0];
  EXPECT_EQ(model.source, (folder_ / "model.gguf").string());
  EXPECT_EQ(model.backend.plugin, "cpu");
  EXPECT_EQ(std::get<std::string>(model.backend.params.at("isa")), "auto");
  EXPECT_EQ(std::get<int64_t>(model.backend.params.at("tune.tile")), 8);
  EXPECT_EQ(model.scheduler.max_step_tokens, 512u);
  EXPECT_THAT(model.sampler.chain,
              ElementsAre("penalties", "top_k", "typical_p", "top_p", "min_p", "temperature"));
}

TEST_F(ConfigTest, ReadsEveryKey) {
  write("key", "  sk-secret \n");
  write("chat.jinja", "{{ messages }}");
  const auto config = load_text(R"(
server:
  listen: "[::1]:0"
  api_keys: [{key_file: key, tenant: team-a, priority: 3}]
  max_queue: 7
  grace_s: 5
  max_body_bytes: 2MiB
  request_templates: true
models:
  - id: demo
    source: model.gguf
    format: gguf
    context: 2048
    backend: {plugin: cpu, threads: 3, isa: avx2, tune: {tile: 16},
              kv: {k: f8_e4m3, v: bf16, memory: 1GiB, block: 32, swap: 3MiB}}
    scheduler: {plugin: fcfs, max_step_tokens: 64, max_sequences: 2, watermark: 0.5}
    sampler: {chain: [top_k, temperature], defaults: {temperature: 0.8}}
    prefix_cache: false
    device_sampling: false
    chat: {system: Be brief., output: qwen3-coder, template: chat.jinja}
)");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->server.host, "::1");
  EXPECT_EQ(config->server.port, 0);
  ASSERT_EQ(config->server.api_keys.size(), 1u);
  EXPECT_EQ(config->server.api_keys[0].key, "sk-secret");
  EXPECT_EQ(config->server.api_keys[0].priority, 3);
  EXPECT_EQ(config->server.max_body_bytes, 2u << 20);
  const Model& model = config->models[0];
  EXPECT_EQ(model.context, 2048u);
  EXPECT_EQ(model.context_place, config->path + ":13");
  EXPECT_EQ(model.backend.block_size_place, config->path + ":15");
  EXPECT_EQ(model.backend.n_threads, 3u);
  EXPECT_EQ(model.backend.k_dtype, BP_DTYPE_F8_E4M3);
  EXPECT_EQ(model.backend.v_dtype, BP_DTYPE_BF16);
  EXPECT_EQ(model.backend.kv_bytes, 1u << 30);
  EXPECT_EQ(model.backend.block_size, 32u);
  EXPECT_EQ(model.backend.swap_bytes, 3u << 20);
  EXPECT_EQ(std::get<int64_t>(model.backend.params.at("tune.tile")), 16);
  EXPECT_DOUBLE_EQ(std::get<double>(model.scheduler.params.at("watermark")), 0.5);
  EXPECT_DOUBLE_EQ(std::get<double>(model.sampler.defaults.at("temperature")), 0.8);
  EXPECT_FALSE(model.prefix_cache);
  EXPECT_FALSE(model.device_sampling);
  EXPECT_EQ(model.chat_system, "Be brief.");
  EXPECT_EQ(model.chat_output, "qwen3-coder");
  EXPECT_EQ(model.chat_template, "{{ messages }}");
}

TEST(KvTypes, OfACommandLineAreOneOrTwo) {
  Backend backend;
  ASSERT_TRUE(set_kv_types("q8_0", backend).ok());
  EXPECT_EQ(backend.k_dtype, BP_DTYPE_Q8_0);
  EXPECT_EQ(backend.v_dtype, BP_DTYPE_Q8_0);
  ASSERT_TRUE(set_kv_types("f16,q8_0", backend).ok());
  EXPECT_EQ(backend.k_dtype, BP_DTYPE_F16);
  EXPECT_EQ(backend.v_dtype, BP_DTYPE_Q8_0);
  ASSERT_TRUE(set_kv_types("", backend).ok());
  EXPECT_EQ(backend.k_dtype, BP_DTYPE_F16);
  for (const char* wrong : {"q8_9", "q8_0,", "f16,q8_0,f16"}) {
    EXPECT_NE(set_kv_types(wrong, backend).message().find("is no type"), std::string::npos);
  }
}

// Backends refuse what they do not keep.
TEST(KvTypes, AreAnyThatABackendMayKeep) {
  Backend backend;
  ASSERT_TRUE(set_kv_types("f8_e4m3", backend).ok());
  EXPECT_EQ(backend.k_dtype, BP_DTYPE_F8_E4M3);
  EXPECT_EQ(backend.v_dtype, BP_DTYPE_F8_E4M3);
  ASSERT_TRUE(set_kv_types("auto,q5_1", backend).ok());
  EXPECT_EQ(backend.k_dtype, BP_DTYPE_NONE);
  EXPECT_EQ(backend.v_dtype, BP_DTYPE_Q5_1);
}

TEST_F(ConfigTest, NamesTheAllowedValuesOnce) {
  EXPECT_THAT(error_of("models: [{id: demo, source: model.gguf, backend: {isa: sse}}]"),
              ::testing::EndsWith("isa: 'sse' is none of auto, avx2"));
}

TEST_F(ConfigTest, ExpandsEnvironmentVariablesInValues) {
  ::setenv("BACKPLANE_CONFIG_TEST", "model", 1);
  EXPECT_EQ(error_of("models: [{id: demo, source: \"${BACKPLANE_CONFIG_TEST}.gguf\"}]"), "");
  ::unsetenv("BACKPLANE_CONFIG_TEST");
  EXPECT_THAT(error_of("models: [{id: demo, source: \"${BACKPLANE_CONFIG_TEST}.gguf\"}]"),
              HasSubstr("environment variable 'BACKPLANE_CONFIG_TEST' is not set"));
}

TEST_F(ConfigTest, EachMistakeIsOneLineWithItsPlace) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const std::string model = "models:\n  - id: demo\n    source: model.gguf\n";
  const Case cases[] = {
      {"", "config.yaml:1:1: the key 'models' is missing"},
      {"models: []", "config.yaml:1:9: models: must list at least one model"},
      {"modles: []", "config.yaml:1:1: modles: unknown key; nearest: models"},
      {"models: [{source: model.gguf}]", "models[0]: the key 'id' is missing"},
      {"models: [{id: demo}]", "models[0]: the key 'source' is missing"},
      {"models: [{id: demo, source: gone.gguf}]", "models[0].source: there is no file or folder"},
      {"models: [{id: a, source: model.gguf}, {id: a, source: model.gguf}]", "is given twice"},
      {"server: {listen: 8080}\nMODEL", ":1:18: server.listen: must be HOST:PORT"},
      {"server: {listen: \"a:70000\"}\nMODEL", "server.listen: must be HOST:PORT"},
      {"server: {lisen: \"a:1\"}\nMODEL", "server.lisen: unknown key; nearest: listen"},
      {"server: {grace_s: soon}\nMODEL", "server.grace_s: must be a whole number, not 'soon'"},
      {"server: {max_body_bytes: 1}\nMODEL", "must be a size from 1KiB to 1GiB"},
      {"server: {api_keys: [{key_file: nope}]}\nMODEL", "the key file cannot be read"},
      {"server: {api_keys: [{key_file: /dev/zero}]}\nMODEL", "/dev/zero: larger than 1 MiB"},
      {"server: {api_keys: [{key_file: fifo}]}\nMODEL", "fifo: is a pipe that nobody writes to"},
      {"plugins: {path: [nowhere]}\nMODEL", "plugins.path[0]: there is no folder"},
      {"MODEL    context: -1\n", "config.yaml:4:14: models[0].context: must be from 1 to"},
      {"MODEL    format: ggup\n",
       "models[0].format: no plugin 'ggup' of kind bp.format/1; nearest: gguf"},
      {"MODEL    backend: {plugin: gpu}\n",
       "config.yaml:4:23: models[0].backend.plugin: no plugin 'gpu'"},
      {"MODEL    backend: {plugin: fcfs}\n", "plugin 'fcfs' is no bp.backend/1"},
      {"MODEL    backend: {isaa: auto}\n", "models[0].backend.isaa: unknown key; nearest: isa"},
      {"MODEL    backend: {isa: avx3}\n",
       "models[0].backend.isa: 'avx3' is none of auto, avx2; nearest: avx2"},
      {"MODEL    backend: {tune: {tile: 0}}\n",
       "models[0].backend.tune.tile: must be at least 1, not 0"},
      {"MODEL    backend: {kv: {dtype: f61}}\n",
       "'f61' is no type of a KV cache, as f16 and q8_0 are, nor auto; nearest: f16"},
      {"MODEL    backend: {kv: {memory: lots}}\n", "'lots' is no size"},
      {"MODEL    scheduler: {watermark: 2}\n", "watermark: must be from 0 to 1, not 2"},
      {"MODEL    sampler: {chain: [topk]}\n",
       "models[0].sampler.chain: no sampler stage 'topk'; nearest: top_k"},
      {"MODEL    sampler: {defaults: {temprature: 1}}\n", "unknown key; nearest: temperature"},
      {"MODEL    sampler: {defaults: {temperature: 9}}\n", "must be from 0 to 5, not 9"},
      {"MODEL    chat: {sytem: x}\n", "models[0].chat.sytem: unknown key; nearest: system"},
      {"MODEL    chat: {output: hermse}\n",
       "models[0].chat.output: there is no dialect 'hermse'; nearest: hermes"},
      {"MODEL    chat: {template: none.jinja}\n", "/none.jinja: cannot be opened: No such file"},
      {"MODEL    chat: {template: .}\n", ": is a folder"},
      {"MODEL    chat: {template: empty.jinja}\n", "/empty.jinja: is empty"},
      {"MODEL    chat: {template: /dev/zero}\n",
       "models[0].chat.template: /dev/zero: larger than 4 MiB"},
      {"MODEL    chat: {template: broken.jinja}\n", "config.yaml:4:22: models[0].chat.template: "},
      {"MODEL    context: 1\n", "config.yaml:4:14: models[0].context: must be at least 2"},
      {"MODEL    backend: {kv: {memory: 0}}\n", "'0' is no size"},
      {"MODEL    sampler: {chain: [top_k, temperature, top_k]}\n",
       "models[0].sampler.chain: sampler stage 'top_k' is named twice"},
      {"models: [\n", "config.yaml:"},
      {"server: {api_keys: []}\nMODEL", "server.api_keys: must have a key"},
      {"MODEL\n---\nserver: {}\n", "config.yaml:6:1: a file has one document"},
      {"models: {a: b}\n", "models: must be a list"},
      {"models: &a [*a]\n", "config.yaml:"},
  };
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  for (const Case& c : cases) {
    std::string text = c.text;
    if (const size_t at = text.find("MODEL"); at != std::string::npos) text.replace(at, 5, model);
    const std::string message = error_of(text);
    EXPECT_THAT(message, HasSubstr(c.expected)) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

// Its paths of plugins are read first, then all of it: a pipe would be empty by then.
TEST_F(ConfigTest, APipeIsRefused) {
  const std::string pipe = (folder_ / "fifo").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_plugin_paths(pipe).status().message(), pipe + ": not a regular file");
}

TEST_F(ConfigTest, DeepNestingIsRefused) {
  EXPECT_THAT(error_of("models: " + std::string(100000, '[')), HasSubstr("config.yaml:"));
}

TEST_F(ConfigTest, DefaultModelCarriesThePluginsDefaults) {
  const auto model = default_model((folder_ / "model.gguf").string(), "cpu", catalog_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->id, "model");
  EXPECT_EQ(std::get<int64_t>(model->backend.params.at("tune.tile")), 8);
  EXPECT_THAT(default_model("x", "gpu", catalog_).status().message(), HasSubstr("no plugin 'gpu'"));
}

TEST(ParseSize, ReadsUnitsAndRefusesTheRest) {
  EXPECT_EQ(parse_size("2GiB"), 2ull << 30);
  EXPECT_EQ(parse_size("1.5 MB"), 1500000u);
  EXPECT_EQ(parse_size("4096"), 4096u);
  for (const char* wrong : {"", "GiB", "-1", "1 parsec", "1e300", "nan", "2 GiB x"}) {
    EXPECT_EQ(parse_size(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace bp::config
