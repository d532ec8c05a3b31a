// The proof that the conformance tool works: it fails every wrong backend, with a message that
// points at the mistake, and passes the backend without one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "sdk/conformance/probe/sanitizer.hpp"

namespace bp::test {
namespace {

struct Mutant {
  const char* mutation;  // of the plugin "mutants"; or a library of its own where plugin is set
  const char* test;      // of the tool, which must fail
  const char* message;   // a regular expression that the failure matches
  const char* plugin = nullptr;
};

constexpr Mutant kMutants[] = {
    // Ops.
    {"mask-off-by-one", "ops-attention-prefill-f32",
     "only the last token of each sequence is right"},
    {"window-off-by-one", "ops-attention-window-16-f32",
     "it equals the result with window = 17 instead of 16"},
    {"kv-heads-interleaved", "ops-attention-decode-f32", "of 6 heads only these are wrong: 1, 4"},
    {"softmax-without-max", "ops-attention-large-scores-f32",
     "case large-scores.*is -?(nan|inf), expected"},
    {"rope-pairs-swapped", "ops-rope-halves", "it equals the result with pairing = pairs"},
    {"rope-off-by-one", "ops-rope-pairs", "it equals the result with each position one higher"},
    {"bias-forgotten", "ops-linear-bias-f32", "it equals the result without bias"},
    {"last-scale-ignored", "ops-linear-quantised-q8-0",
     "linear, case quantised, weights q8_0.*row 0"},
    {"row-gaps-ignored", "ops-linear-row-gaps-q8-0", "linear, case row-gaps, weights q8_0.*row 0"},
    {"eps-ignored", "ops-norm-rms-large-eps", "it equals the result with eps = 0"},
    {"sinks-forgotten", "ops-attention-sinks-softcap-f32", "it equals the result without sinks"},
    {"slopes-forgotten", "ops-attention-slopes-f32", "it equals the result without slopes"},
    {"rope-by-row", "ops-rope-pairs", "output q: row 3 column 0 is .*, expected"},
    {"last-row-unwritten", "ops-linear-odd-f32", "row 4 was not written"},
    {"row-end-unwritten", "ops-linear-odd-f32", "row 0 was not written from column 16 of 19 on"},
    {"write-past-row", "ops-linear-odd-f32", "wrote past the end of row 0: at column 19 of 19"},
    // Steps.
    {"block-forgotten", "steps-agree-with-reference",
     "position 16 is slot 0 of the sequence's block 1"},
    {"table-of-another-sequence", "steps-permuted-sequences", "sequence 1 of a batch of prompts"},
    {"kv-in-null-block", "steps-mixed-batch", "position 32 is slot 0 of the sequence's block 2"},
    {"copy-ignored", "steps-copied-block", "the sequence in the copied block"},
    {"clear-ignored", "steps-cleared-block", "a decode over a cleared block"},
    {"depends-on-batch", "steps-many-decodes", "decode 0 of 16 in one step: logits"},
    {"depends-on-chunks", "steps-chunked-prefill", "a chunk of positions"},
    {"nan-from-stale-block", "steps-stale-blocks", "in blocks that held NaN.*is -?nan, expected"},
    {"nan-in-every-row", "steps-nan-beside", "a sequence before one with a NaN.*is nan"},
    {"blocks-in-a-row", "steps-scattered-blocks", "a decode after a prompt in scattered blocks"},
    {"first-rows-selected", "steps-output-rows", "rows 0, 3 and the last of a sequence"},
    {"greatest-of-a-half", "steps-output-rows",
     "program output 0: greatest of row .* is .*, expected"},
    {"second-output-unwritten", "steps-output-rows", "program output 1: row 0 was not written"},
    {"block-ops-reversed", "steps-chained-block-ops", "a decode after copies of copies"},
    {"block-ops-after-step", "steps-cleared-block", "a decode over a cleared block"},
    {"steps-uncounted", "steps-in-flight",
     "a submit beyond max_in_flight, which is 1, must give INVALID_ARGUMENT"},
    {"export-gives-blocks-up", "steps-transfer-reads", "a decode after an export: logit"},
    {"image-halves-swapped", "steps-transfer-canonical",
     "the reference's decode from the backend's images"},
    {"first-image-imported", "steps-transfer-blocks", "a decode in imported blocks: logit"},
    {"tie-to-higher-id", "steps-sampling-best", "a row all equal.*token is .*, expected 0"},
    {"sum-of-what-is-kept", "steps-sampling-log-sum", "log_sum is .*, expected"},
    {"uniform-ignored", "steps-sampling-draws", "a draw by 0 with top_k 0.*token is"},
    {"temperature-ignored", "steps-sampling-draws", "scale 0.5.*token is"},
    {"candidates-unsorted", "steps-sampling-candidates", "candidate 0: id is .*, expected"},
    {"chosen-of-first-row", "steps-sampling-chosen",
     "step 1 by ids of -1-r.*row .: token is .*, by explicit ids"},
    {"chosen-row-unchecked", "steps-sampling-chosen-limits",
     "an id of -1 in the first step.*INVALID_ARGUMENT"},
    {"failed-choice-fails-all", "steps-sampling-chosen-apart", "seq_status of sequence 5 is 2"},
    // Errors.
    {"foreign-image-accepted", "steps-transfer-foreign", "another (magic|version).*BP_OK"},
    {"nan-is-an-error", "errors-nan", "a NaN in a weight makes the step fail"},
    {"stop-ignored", "errors-stopped", "must be BP_SEQ_STOPPED"},
    {"status-unwritten", "steps-repeated", "seq_status\\[0\\] was not written"},
    {"bad-block-accepted", "errors-block-ids", "block id -1.*INVALID_ARGUMENT"},
    {"unknown-bits-accepted", "errors-required-bits",
     "an unknown bit in bp_batch.required.*UNSUPPORTED, it gave OK"},
    {"message-unterminated", "abi-errors", "does not end with NUL"},
    {"message-missing", "abi-errors", "the error has no message"},
    {"output-touched-on-error", "abi-errors", "compile fails but writes \\*out"},
    // The ABI.
    {"unknown-version-accepted", "abi-op-versions", "version 999 of .*: check reports no obstacle"},
    {"struct-too-large", "abi-memory-info",
     "writes byte .* of a bp_memory_info whose struct_size is"},
    {"exception-escapes", "abi-errors", "an exception crossed the plugin's boundary: no compile"},
    {"first-obstacle-only", "abi-check-reports-all", "check does not report that of op 4"},
    {"struct-size-ignored", "abi-older-attributes", "attributes of ops with a smaller struct_size"},
    // Life and threads.
    {"thread-left", "life-backends", "leaves .* threads: destroy must join them"},
    {"signal-ignored", "life-process", "PIPE"},
    {"environment-changed", "life-process", "MUTANT|environment"},
    {"leak-in-create", "life-backends",
     "create and destroy leaves .*a leak of about 5000 bytes each"},
    {"leak-in-step", "life-steps", "times a step leaves .*a leak of about 5000 bytes each"},
    {"descriptor-leak", "life-backends", "leaves 90 files open"},
    {"short-memory-is-internal", "life-scarce-memory",
     "create with its allocation .* failing must give OUT_OF_MEMORY"},
    {"shared-scratch", "threads-two-executables",
     "step .* gives other logits, they share what they write"},
    {"bound-to-a-thread", "threads-rotating", "no context on this thread"},
    {"rounding-changed", "life-process", "after submit the floating-point mode"},
    // Libraries.
    {"nonsense-id", "load-unknown-ids", "get_factory\\(.*gives a table, must be NULL",
     "nonsense-id"},
    {"other-version", "load-manifest",
     "version is .1\\.0\\.0. in the manifest, .1\\.0\\.1. in the library", "other-version"},
    {"any-major", "load-other-major", "bp_plugin_query\\(1\\) does not give NULL", "any-major"},
    {"query-allocates", "load-query-is-pure", "bp_plugin_query allocates memory",
     "query-allocates"},
    {"function-missing", "abi-factory", "collect", "function-missing"},
    {"second-symbol", "load-one-symbol", "mutant_helper", "second-symbol"},
};

void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.mutation;
}

struct Outcome {
  int exit_code;
  nlohmann::json report;
};

// The exit code, and what it printed.
std::pair<int, std::string> run_tool(const std::string& command, const std::string& plugin,
                                     const std::string& arguments) {
  const std::string line = std::string(std::getenv("BACKPLANE_BUILD_DIR")) +
                           "/bin/backplane-conform " + command + " " MUTANTS_FOLDER "/" + plugin +
                           ".plugin.yaml " + arguments;
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {-1, {}};
  std::string text;
  std::array<char, 4096> bytes;
  while (const size_t n = fread(bytes.data(), 1, bytes.size(), pipe)) text.append(bytes.data(), n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

Outcome conform(const std::string& plugin, const std::string& arguments) {
  const auto [exit_code, text] = run_tool("", plugin, "--json " + arguments);
  return {exit_code, nlohmann::json::parse(text, nullptr, false)};
}

std::string message_of(const nlohmann::json& report, const std::string& test) {
  for (const auto& entry : report.value("tests", nlohmann::json::array())) {
    if (entry["name"] == test && entry["status"] == "fail") return entry["message"];
  }
  return "(the test did not fail)";
}

std::string test_name(std::string mutation) {
  std::replace(mutation.begin(), mutation.end(), '-', '_');
  return mutation;
}

class Mutants : public testing::TestWithParam<Mutant> {};

// Without those that allocate where a sanitizer's allocator keeps the tool from counting and
// refusing.
std::vector<Mutant> mutants() {
  std::vector<Mutant> chosen(std::begin(kMutants), std::end(kMutants));
  std::erase_if(chosen, [](const Mutant& mutant) {
    const std::string_view test = mutant.test;
    return conformance::kSanitized &&
           (test == "load-query-is-pure" || test == "life-scarce-memory");
  });
  return chosen;
}

INSTANTIATE_TEST_SUITE_P(All, Mutants, testing::ValuesIn(mutants()),
                         [](const auto& mutant) { return test_name(mutant.param.mutation); });

TEST_P(Mutants, AreFailedWithAMessageThatPointsAtTheMistake) {
  const auto& [mutation, test, message, plugin] = GetParam();
  const std::string chosen = " --test " + std::string(test);
  const Outcome outcome =
      plugin != nullptr ? conform(plugin, chosen)
                        : conform("mutants", "--set mutation=" + std::string(mutation) + chosen);
  EXPECT_EQ(outcome.exit_code, 1);
  const std::string found = message_of(outcome.report, test);
  EXPECT_TRUE(std::regex_search(found, std::regex(message))) << test << ": " << found;
}

// No mistakes: a backend may know composites alone, primitives alone, or one type of KV cache.
constexpr const char* kPartial[] = {"primitives-only", "composites-only", "f16-kv-only"};

TEST(MutationProof, PassesTheBackendWithoutAMistake) {
  const Outcome outcome = conform("mutants", "--set mutation=none --only-failed");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.report.dump(1);
}

// Its allocations do not fail, so that what comes of it is not put down to the plugin.
TEST(MutationProof, ADriverAnswersForItsOwnMemory) {
  if (conformance::kSanitized) GTEST_SKIP() << "a sanitizer's allocator refuses nothing";
  const Outcome outcome =
      conform("mutants", "--set mutation=driver-allocates --test life-scarce-memory");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.report.dump(1);
}

class PartialBackends : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, PartialBackends, testing::ValuesIn(kPartial),
                         [](const auto& partial) { return test_name(partial.param); });

TEST_P(PartialBackends, PassWithWhatTheyKnow) {
  const std::string set = "--set mutation=" + std::string(GetParam());
  const Outcome outcome = conform("mutants", set + " --level ops --level steps --only-failed");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.report.dump(1);
  const auto [exit_code, text] = run_tool("bisect", "mutants", set);
  EXPECT_EQ(exit_code, 0) << text;
}

TEST(MutationProof, CoversEveryMutationOfTheManifest) {
  std::set<std::string> proven(std::begin(kPartial), std::end(kPartial)), offered;
  proven.insert({"none", "driver-allocates"});
  for (const Mutant& mutant : kMutants) {
    if (mutant.plugin == nullptr) proven.insert(mutant.mutation);
  }
  const YAML::Node manifest = YAML::LoadFile(MUTANTS_FOLDER "/mutants.plugin.yaml");
  for (const auto& value : manifest["config"]["mutation"]["values"]) {
    offered.insert(value.as<std::string>());
  }
  EXPECT_EQ(proven, offered);
}

struct WrongOp {
  const char* mutation;
  const char* op;  // that bisect must name
};

class Bisect : public testing::TestWithParam<WrongOp> {};

void PrintTo(const WrongOp& wrong, std::ostream* out) {
  *out << wrong.mutation;
}

constexpr WrongOp kWrongOps[] = {
    {"rope-pairs-swapped", "layers.0.rope \\(rope\\).*rms error .* \\(bound 0.0002\\)"},
    {"window-off-by-one", "layers.1.attention \\(attention\\).*row 24 "},
    {"last-scale-ignored", "weights of q8_0.*layers.0.attention_out \\(linear\\)"},
    {"kv-in-null-block", "layers.0.attention \\(attention\\)"},
};
INSTANTIATE_TEST_SUITE_P(All, Bisect, testing::ValuesIn(kWrongOps),
                         [](const auto& wrong) { return test_name(wrong.param.mutation); });

TEST_P(Bisect, NamesTheFirstWrongOp) {
  const auto [exit_code, text] =
      run_tool("bisect", "mutants", "--set mutation=" + std::string(GetParam().mutation));
  EXPECT_EQ(exit_code, 1);
  const std::regex expected("the first op outside its bound is .*");
  EXPECT_TRUE(std::regex_search(text, expected)) << text;
  EXPECT_TRUE(
      std::regex_search(text.substr(text.rfind("a small transformer")), std::regex(GetParam().op)))
      << text;
}

}  // namespace
}  // namespace bp::test
