// Mistakes in architecture files, each with its line.

#include "core/model/architecture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/core/model/support/backend_runner.hpp"
#include "tests/core/model/support/fake_model.hpp"

namespace bp::model::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The smallest that loads; line numbers below count from its first line.
constexpr const char* kSmall = R"(schema: 1
names: {gguf: [small]}
hyperparameters:
  n_layers: {gguf: "{arch}.block_count"}
  context_length: {gguf: "{arch}.context_length", default: 16}
  n_vocab: {default: rows(embedding)}
  dim: {gguf: "{arch}.embedding_length"}
weights:
  embedding: {gguf: token_embd.weight, shape: "n_vocab, dim"}
  w: {gguf: "blk.{i}.w.weight", shape: "dim, dim"}
inputs: [ids]
prologue:
  - {op: embed, in: {ids: ids}, out: {y: x}, weights: {table: embedding}}
layer:
  carries: [x]
  ops:
    - {op: linear, in: {x: x}, out: {y: x}, weights: {w: w}}
epilogue:
  - {op: select_rows, in: {x: x}, out: {y: x}, output: logits}
  - {op: lm_head, in: {x: x}, out: {logits: logits}, weights: {w: embedding}}
outputs: [logits]
)";

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Writes an architecture into a folder of its own and loads a fitting model with it.
class ArchitectureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("architectures-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Without the tensor `missing`.
  Result<LoadedModel> load(const std::string& text, const std::string& missing = "") {
    std::ofstream(folder_ / "small.yaml") << text;
    fake_.metadata.string("general.architecture", "small")
        .u64("small.block_count", 2)
        .u64("small.embedding_length", 8);
    fake_.tensor("token_embd.weight", {10, 8});
    fake_.tensor("blk.0.w.weight", {8, 8}).tensor("blk.1.w.weight", {8, 8});
    fake_.remove(missing);
    ResourceFolders folders = source_folders();
    folders.architectures = {folder_.string()};
    return fake_.load(folders);
  }

  std::filesystem::path folder_;
  FakeModel fake_{"gguf"};
};

TEST_F(ArchitectureTest, SmallestLoads) {
  const auto model = load(kSmall);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().n_ops, 5u);
  EXPECT_EQ(model->context_length, 16u);
}

TEST_F(ArchitectureTest, ANameCanBeTwo) {
  const auto model =
      load(changed(R"("{arch}.context_length")", R"("{arch}.{window,context}_length")"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->context_length, 16u);
  fake_.metadata.u64("small.context_length", 32);
  EXPECT_EQ(load(changed(R"("{arch}.context_length")", R"("{arch}.{window,context}_length")"))
                ->context_length,
            32u);
}

TEST_F(ArchitectureTest, ATextCanStandForANumber) {
  const std::string text = changed("default: 16", "default: 16, values: {half: 8, none: x}");
  fake_.metadata.string("small.context_length", "half");
  const auto model = load(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->context_length, 8u);
  fake_.metadata.string("small.context_length", "full");
  EXPECT_THAT(load(text).status().message(),
              HasSubstr("\"full\" is not supported (supported: half, none)"));
  fake_.metadata.string("small.context_length", "none");
  EXPECT_THAT(load(text).status().message(),
              HasSubstr("'none' stands for 'x', which is no integer"));
}

TEST_F(ArchitectureTest, LayersPastTheLastAreIgnored) {
  const std::string text = std::string(kSmall) + "ignore: {gguf: [\"blk.{past}.*\"]}\n";
  fake_.tensor("blk.2.w.weight", {8, 8}).tensor("blk.13.norm", {8}).tensor("blk.1.norm", {8});
  const auto model = load(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_THAT(model->warnings,
              ElementsAre("tensors that the architecture does not use: blk.1.norm"));
}

TEST_F(ArchitectureTest, AWeightIsTheFirstSourceThatIsThere) {
  const std::string text = changed(
      R"(w: {gguf: "blk.{i}.w.weight",)",
      R"(w: {gguf: ["blk.{i}.w.weight", {name: "blk.{i}.both.weight", rows: {every: 16, first: 8, n: 8}}],)");
  fake_.tensor("blk.1.both.weight", {16, 8});
  const auto whole = load(text);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_THAT(whole->warnings, ElementsAre(HasSubstr("blk.1.both.weight")));
  const auto part = load(text, "blk.1.w.weight");
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_THAT(part->warnings, ElementsAre());
}

// The small architecture with a convolution in its first layer.
std::string convolved(const std::string& slot, const std::string& op) {
  const std::string text =
      changed("  carries: [x]\n", "  carries: [x]\n  state_slots:\n    " + slot + "\n");
  const size_t at = text.find("epilogue:");
  return text.substr(0, at) + "    - " + op + "\n" + text.substr(at);
}
constexpr const char* kSlot = "memory: {n_floats: dim * 7, when: i == 0}";
constexpr const char* kConv =
    "{op: short_conv, when: i == 0, in: [x], out: [x], weights: {w: w}, attributes: {state_slot: "
    "memory, kernel: 8}}";

TEST_F(ArchitectureTest, LayersWithState) {
  const auto model = load(convolved(kSlot, kConv));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.c().n_ops, 6u);
  ASSERT_EQ(model->program.c().n_state_slots, 1u);
  EXPECT_EQ(model->program.c().state_slots[0].n_floats, 56u);
  EXPECT_EQ(model->state_bytes, 56u * 4);
}

TEST_F(ArchitectureTest, MistakesOfStateNameTheirLine) {
  const auto error = [&](const std::string& slot, const std::string& op) {
    const auto model = load(convolved(slot, op));
    EXPECT_FALSE(model.ok());
    return model.ok() ? "" : model.status().message();
  };
  EXPECT_THAT(error("memory: {floats: 8}", kConv), HasSubstr("small.yaml:17:"));
  EXPECT_THAT(error("memory: {when: i == 0}", kConv),
              HasSubstr("layer.state_slots.memory: needs the key n_floats"));
  EXPECT_THAT(error("memory: {n_floats: dim - 8}", kConv),
              HasSubstr("small.yaml:17:24: layer.state_slots.memory.n_floats: 0 is out of range"));
  EXPECT_THAT(error("other: {n_floats: 56}", kConv), HasSubstr("memory"));
  EXPECT_THAT(error("memory: {n_floats: dim * 6, when: i == 0}", kConv),
              HasSubstr("state slot 0 holds 48 floats, the op keeps 56"));
  EXPECT_THAT(error("memory: {n_floats: dim * 7}", kConv), HasSubstr("no op names state slot 1"));
}

struct Mistake {
  const char* from;
  const char* to;
  const char* piece;  // of the message
};

TEST_F(ArchitectureTest, MistakesNameTheirLine) {
  const std::vector<Mistake> mistakes = {
      // The file's form.
      {"schema: 1", "schema: 2", "small.yaml:1:9: schema: 2 is newer than this program knows (1)"},
      {"schema: 1\n", "", "needs the key schema"},
      {"inputs: [ids]", "input: [ids]", "small.yaml:11:1: input: unknown key; nearest: inputs"},
      {"outputs: [logits]", "", "needs the key outputs"},
      {"inputs: [ids]", "inputs: [ids, mask]", "small.yaml:11:9: inputs: must name one variable"},
      {"names: {gguf: [small]}", "names: {gguf: [small]", "small.yaml:3"},
      {"default: 16", "default: 1 +",
       "small.yaml:5:60: hyperparameters.context_length.default: column 4"},
      {"dim: {gguf", "n_layers: {gguf", "n_layers: is given twice"},
      {"dim: {gguf", "dim: {ggfu", "unknown key; nearest: gguf"},
      {"n_vocab: {default", "n_vocab: {type: number, default",
       "must be int, float, bool or string"},
      {"shape: \"n_vocab, dim\"", "optional: \"true\"",
       "small.yaml:9:14: weights.embedding: needs the key shape"},
      {"op: linear", "op: liner", "op 'liner' is unknown; nearest: linear"},
      {"in: {x: x}, out: {y: x}, weights: {w: w}", "in: {z: x}, out: {y: x}, weights: {w: w}",
       "small.yaml:17:28: layer.ops[0].in.z: no such slot"},
      {"weights: {w: w}", "weights: {w: w}, attributes: {activate: silu}",
       "no such attribute; nearest: activation"},
      {"{op: embed,", "{", "small.yaml:13:5: prologue[0]: needs the key op"},
      {"op: linear, in: {x: x}, out: {y: x}, weights: {w: w}", "op: softcap, in: {x: x}",
       "softcap needs the attribute cap"},
      // Its meaning.
      {"default: 16", "default: missing", "unknown name 'missing'"},
      {"default: 16", "default: 1.5", "its default 1.5 has the wrong type (float)"},
      {"context_length: {gguf", "context: {gguf",
       "small.yaml: needs the integer hyper-parameter context_length"},
      {"shape: \"dim, dim\"", "shape: \"dim, width\"", "unknown name 'width'"},
      {"weights: {w: w}", "weights: {w: v}", "weight 'v' is not known here; nearest: w"},
      {"in: {x: x}, out: {y: x}, weights: {w: w}", "in: {x: y}, out: {y: x}, weights: {w: w}",
       "small.yaml:17:28: layer.ops[0].in.x: value 'y' is not known here; nearest: x"},
      {"carries: [x]", "carries: [y]", "value 'x' is not known here; nearest: y"},
      {"out: {y: x}, weights: {w: w}", "out: {y: y}, weights: {w: w}", "is never read"},
      {"weights: {w: w}", "weights: {w: w}, attributes: {activation: silly}",
       "unknown name 'silly'"},
      {"weights: {w: w}", "weights: {w: w}, attributes: {activation: '\"silly\"'}",
       "attribute activation: \"silly\" is unknown"},
      {"weights: {w: w}", "weights: {w: w}, attributes: {activation: -1}", "is no valid value"},
      {"output: logits}", "output: hidden}", "'hidden' is no output of the program"},
      {"out: {logits: logits}", "out: {logits: scores}", "no op writes the output 'logits'"},
      {"  - {op: select_rows, in: {x: x}, out: {y: x}, output: logits}\n", "",
       "the rows of output 'logits' must come from a select_rows"},
      {"w: {gguf: \"blk.{i}.w.weight\", shape: \"dim, dim\"}",
       "w: {gguf: \"blk.{i}.v.weight\", shape: \"dim, dim\", fallback: u}",
       "fallback 'u' is no weight declared before"},
      {"{op: linear,", "{op: linear, when: i,", "expected a bool, found 0 (int)"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto model = load(changed(mistake.from, mistake.to));
    ASSERT_FALSE(model.ok()) << mistake.to;
    EXPECT_THAT(model.status().message(), HasSubstr(mistake.piece)) << mistake.to;
  }
}

TEST_F(ArchitectureTest, ShapesThatDoNotMeet) {
  fake_.tensor("wide", {8, 16});
  const auto model = load(changed("w: {gguf: \"blk.{i}.w.weight\", shape: \"dim, dim\"}",
                                  "w: {gguf: wide, shape: \"dim, 2 * dim\"}"));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(),
              HasSubstr("weight w 'wide' has shape [8, 16], expected [n_out, n_in] = [8, 8]"));
}

TEST_F(ArchitectureTest, AbsentWeightInARequiredSlot) {
  const auto model = load(changed("w: {gguf: \"blk.{i}.w.weight\"",
                                  "w: {optional: \"true\", gguf: \"blk.{i}.v.weight\""));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(),
              HasSubstr("weight 'w' is absent here, and slot w needs one"));
}

TEST_F(ArchitectureTest, IncludedFilesAreReadAndNamed) {
  std::filesystem::create_directories(folder_ / "include");
  std::ofstream(folder_ / "include" / "more.yaml")
      << "hyperparameters:\n  width: {default: 1 / 0}\n";
  auto model = load(changed("schema: 1\n", "schema: 1\ninclude: [include/more.yaml]\n"));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("include/more.yaml:2:20: hyperparameters.width"));
  model = load(changed("schema: 1\n", "schema: 1\ninclude: [include/less.yaml]\n"));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("small.yaml:2:11: include[0]: "));
}

TEST_F(ArchitectureTest, OwnDeclarationsReplaceIncludedOnes) {
  std::filesystem::create_directories(folder_ / "include");
  std::ofstream(folder_ / "include" / "more.yaml")
      << "hyperparameters:\n  dim: {gguf: nowhere}\n  twice: {default: 2 * dim}\n";
  const auto model = load(changed("schema: 1\n", "schema: 1\ninclude: [include/more.yaml]\n"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->parameters.at("twice").as_int(), 16);
}

TEST_F(ArchitectureTest, OpsOfAnotherFile) {
  std::filesystem::create_directories(folder_ / "include");
  std::ofstream(folder_ / "include" / "block.yaml")
      << "ops:\n  - {op: linear, in: {x: x}, out: {y: x}, weights: {w: w}}\n"
         "  - {op: scale, in: {x: x}, out: {y: x}, attributes: {factor: 2}}\n";
  const std::string linear = "- {op: linear, in: {x: x}, out: {y: x}, weights: {w: w}}";
  const auto model = load(changed(linear, "- include: include/block.yaml"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->program.parts().ops.size(), 1u + model->n_layers * 2 + 2);
  const auto missing = load(changed(linear, "- include: include/blocks.yaml"));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.status().message(), HasSubstr("small.yaml:17:16: layer.ops[0].include: "));
}

TEST_F(ArchitectureTest, DefaultsOfLayersSeeTheirIndex) {
  const auto model = load(changed("  dim: {gguf",
                                  "  odd: {type: bool, per_layer: true, default: 'size[i] == 3'}\n"
                                  "  size: {per_layer: true, default: i + 2}\n  dim: {gguf"));
  ASSERT_TRUE(model.ok()) << model.status().message();
  const List& odd = model->parameters.at("odd").list();
  ASSERT_EQ(odd.size(), model->n_layers);
  for (size_t i = 0; i < odd.size(); ++i) EXPECT_EQ(odd[i].as_bool(), i == 1) << i;
}

TEST_F(ArchitectureTest, AKeyWithoutAValueIsNotAnAbsentOne) {
  const std::string text =
      changed("default: 16}", "default: 16, if_null: 8}\n  other: {gguf: other, default: 3}");
  EXPECT_EQ(load(text)->context_length, 16u);
  fake_.metadata.strings("huggingface.null_keys", {"other", "small.context_length"});
  const auto model = load(text);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->context_length, 8u);
  EXPECT_EQ(model->parameters.at("other").as_int(), 3);
}

// What stands in config.json under a key that is asked for is of its kind, or refused.
class ConfigKindTest : public ::testing::Test {
 protected:
  ConfigKindTest() { fill_hugging_face_llama(fake_); }
  std::string error() { return fake_.load(source_folders()).status().message(); }
  // With a value that has no metadata type.
  std::string error_of(const std::string& key, const std::string& json) {
    fake_.metadata.remove(key);
    fake_.metadata.strings("huggingface.untyped_keys", {"config.other", key})
        .strings("huggingface.untyped_values", {"[[1]]", json});
    return error();
  }
  FakeModel fake_{"huggingface"};
};

TEST_F(ConfigKindTest, ObjectsAndMixedArraysAreRefused) {
  for (const char* key :
       {"config.hidden_act", "config.rope_theta", "config.sliding_window", "config.head_dim",
        "config.vocab_size", "config.rope_scaling.rope_type", "config.hidden_size"}) {
    for (const char* json : {R"({"a":1})", "[[1]]", "{}"}) {
      const std::string text = error_of(key, json);
      EXPECT_THAT(text, HasSubstr("hyper-parameter "));
      EXPECT_THAT(text, HasSubstr(".yaml:"));
      EXPECT_THAT(text, HasSubstr("metadata \"" + std::string(key) +
                                  "\": expected a plain value or a list of them, found " + json));
    }
    fake_.metadata.remove(key);
    fake_.metadata.remove("huggingface.untyped_keys").remove("huggingface.untyped_values");
    fill_hugging_face_llama(fake_);
    EXPECT_EQ(error(), "");
  }
}

TEST_F(ConfigKindTest, NamesOfTheArchitectureToo) {
  EXPECT_THAT(error_of("config.architectures", "{}"),
              HasSubstr("metadata \"config.architectures\": expected a plain value"));
}

TEST_F(ConfigKindTest, ObjectsAreNoScalars) {
  const std::string expected = "metadata \"config.rope_scaling\": expected an object with ";
  fake_.metadata.string("config.rope_scaling", "yarn");
  EXPECT_THAT(error(), HasSubstr(expected));
  EXPECT_THAT(error(), HasSubstr("found string \"yarn\""));
  fake_.metadata.i64("config.rope_scaling", 5);
  EXPECT_THAT(error(), HasSubstr("found i64 5"));
  fake_.metadata.boolean("config.rope_scaling", true);
  EXPECT_THAT(error(), HasSubstr(expected));
  fake_.metadata.strings("config.rope_scaling", {});
  EXPECT_THAT(error(), HasSubstr("found an array"));
  fake_.metadata.boolean("config.rope_scaling", false);
  EXPECT_EQ(error(), "") << "as files say that there is none";
  EXPECT_THAT(error_of("config.rope_scaling", "[[1]]"), HasSubstr(expected));
}

TEST_F(ConfigKindTest, OfWhatNobodyAsksForNothingIsAsked) {
  EXPECT_EQ(error_of("config.quantised", "[[1]]"), "");
  EXPECT_EQ(error_of("config.rope_scaling", "{}"), "");
  EXPECT_EQ(error_of("config.text_config.head_dim", "{}"), "");
}

TEST_F(ConfigKindTest, TheTextsSectionIsReadAlike) {
  fake_.metadata.string("config.text_config.model_type", "mistral");
  EXPECT_THAT(error_of("config.text_config.head_dim", "{}"),
              HasSubstr("metadata \"config.text_config.head_dim\": expected a plain value"));
}

// Files of models without experts say 0 of both.
TEST(ExpertsUsed, AreSomeWhereThereAreExperts) {
  FakeModel fake("gguf");
  fill_llama(fake);
  const auto error = [&] { return fake.load(source_folders()).status().message(); };
  fake.metadata.u64("llama.expert_count", 0).u64("llama.expert_used_count", 0);
  EXPECT_EQ(error(), "");
  fake.metadata.u64("llama.expert_count", 8);
  EXPECT_THAT(error(), HasSubstr("hyper-parameter n_experts_used"));
  EXPECT_THAT(error(), HasSubstr("metadata \"llama.expert_used_count\": must be at least 1 "
                                 "and at most 8, found 0"));
}

TEST_F(ArchitectureTest, DefaultsThatNeedEachOther) {
  const auto model =
      load(changed("default: 16", "default: other}\n  other: {default: context_length"));
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.status().message(), HasSubstr("hyper-parameter context_length"));
  EXPECT_THAT(model.status().message(), HasSubstr("its default needs itself"));
}

TEST_F(ArchitectureTest, FirstFolderWins) {
  const auto own = folder_ / "own";
  std::filesystem::create_directories(own);
  std::ofstream(own / "small.yaml") << changed("default: 16", "default: 32");
  ASSERT_TRUE(load(kSmall).ok());
  ResourceFolders folders = source_folders();
  folders.architectures = {own.string(), folder_.string()};
  const auto model = fake_.load(folders);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->context_length, 32u);
}

}  // namespace
}  // namespace bp::model::test
