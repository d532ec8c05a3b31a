#include <gmock/gmock.h>

#include <filesystem>

#include "core/simulate/recorded_trace.hpp"
#include "core/simulate/trace.hpp"
#include "fixture.hpp"

namespace bp::testing {
namespace {

using simulate::load_trace;
using simulate::Trace;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TraceTest : public SimulateTest {
 protected:
  Trace load(const std::string& name, const std::string& content) {
    auto trace = load_trace(write(name, content), std::nullopt);
    EXPECT_TRUE(trace.ok()) << trace.status().message();
    return trace.ok() ? *trace : Trace();
  }
  std::string error(const std::string& name, const std::string& content) {
    const auto trace = load_trace(write(name, content), std::nullopt);
    EXPECT_FALSE(trace.ok()) << content;
    return trace.status().message();
  }
};

TEST_F(TraceTest, ReadsEveryColumnOfCsvAndSortsByArrival) {
  const Trace trace = load("a.csv",
                           "prefix,arrival,prompt,output,priority,tenant,prefix_tokens,note\r\n"
                           "system,2.5,100,10,-3,\"b, inc\",64,x\r\n"
                           ",1.25,7,3,,a,,\r\n"
                           "\r\n"
                           "system,3,200,20,0,a,64,\r\n");
  ASSERT_EQ(trace.requests.size(), 3u);
  const auto& first = trace.requests[0];
  EXPECT_EQ(first.arrival_us, 0u);
  EXPECT_EQ(first.n_prompt, 7u);
  EXPECT_EQ(first.n_output, 3u);
  EXPECT_EQ(first.priority, 0);
  EXPECT_EQ(first.prefix, simulate::kNoPrefix);
  const auto& second = trace.requests[1];
  EXPECT_EQ(second.arrival_us, 1'250'000u);
  EXPECT_EQ(second.priority, -3);
  EXPECT_EQ(trace.tenants[second.tenant], "b, inc");
  EXPECT_EQ(second.prefix, trace.requests[2].prefix);
  EXPECT_EQ(trace.prefixes[second.prefix].n_tokens(), 64u);
}

TEST_F(TraceTest, ReadsPublishedFormats) {
  const Trace azure = load("azure.csv",
                           "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                           "2023-11-16 23:59:59.5000000,374,44\n"
                           "2023-11-17 00:00:01.2500000,396,109\n");
  EXPECT_EQ(azure.requests[1].arrival_us, 1'750'000u);
  EXPECT_EQ(azure.requests[1].n_output, 109u);
  const Trace burst = load("burst.csv",
                           "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                           "5,ChatGPT,472,18,490,Conversation log\n"
                           "45,ChatGPT,1087,0,1087,Conversation log\n"
                           "118,GPT-4,417,276,693,Conversation log\n");
  EXPECT_EQ(burst.requests.size(), 2u);
  EXPECT_EQ(burst.n_skipped, 1u);
  EXPECT_EQ(burst.requests[1].arrival_us, 113'000'000u);
  const Trace mooncake =
      load("mooncake.jsonl", R"({"timestamp": 0, "input_length": 1100, "output_length": 5,)"
                             R"( "hash_ids": [4, 5, 6]})"
                             "\n"
                             R"({"timestamp": 3000, "input_length": 1500, "output_length": 7,)"
                             R"( "hash_ids": [4, 5, 9]})"
                             "\n");
  EXPECT_EQ(mooncake.requests[1].arrival_us, 3'000'000u);
  const auto& a = mooncake.prefixes[mooncake.requests[0].prefix];
  const auto& b = mooncake.prefixes[mooncake.requests[1].prefix];
  const auto& ids = mooncake.prefix_ids;
  EXPECT_EQ(a.id_tokens, 512u);
  EXPECT_EQ(ids[a.first_id + 1], ids[b.first_id + 1]);
  EXPECT_NE(ids[a.first_id + 2], ids[b.first_id + 2]);
}

TEST_F(TraceTest, SaysWhereARecordedTraceIsWrong) {
  EXPECT_THAT(error("a.csv", "arrival,prompt\n0,1\n"), HasSubstr("a.csv:1"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\n0,1,1\n0,1\n"), HasSubstr("a.csv:3"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\n0,x,1\n"), HasSubstr("'x' is no number"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\n0,-1,1\n"), HasSubstr("prompt"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\nnan,1,1\n"), HasSubstr("a.csv:2"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\n1e300,1,1\n0,1,1\n"), HasSubstr("a.csv:"));
  EXPECT_THAT(error("a.csv", "arrival,prompt,output\n"), HasSubstr("no requests"));
  EXPECT_THAT(error("a.csv", ""), HasSubstr("no requests"));
  EXPECT_THAT(error("a.jsonl", "{\"arrival\": 0, \"prompt\": 1}\n"), HasSubstr("a.jsonl:1"));
  EXPECT_THAT(error("a.jsonl", "[1]\n"), HasSubstr("a.jsonl:1"));
  EXPECT_THAT(error("a.jsonl", R"({"arrival":0,"prompt":1,"output":1,"hash_ids":[-1]})"),
              HasSubstr("hash_ids"));
  EXPECT_THAT(error("a.jsonl", R"({"arrival":0,"prompt":[1],"output":1})"), HasSubstr("prompt"));
}

TEST_F(TraceTest, ARecordedTraceIsReadWithinLimits) {
  const std::string head = "arrival,prompt,output,note\n", row = "0,1,1,";
  const std::string longest((1 << 20) - row.size(), 'x');
  EXPECT_EQ(load("a.csv", head + row + longest + "\n" + row + longest).requests.size(), 2u);
  EXPECT_THAT(error("a.csv", head + row + longest + "x\n" + row + "\n"),
              HasSubstr("a.csv:2: the line is longer than 1024 KiB"));
  EXPECT_THAT(error("a.csv", head + row + "\n" + row + longest + "x"),
              HasSubstr("a.csv:3: the line is longer than 1024 KiB"));
  std::filesystem::create_symlink("/dev/zero", path_of("endless.jsonl"));
  EXPECT_THAT(load_trace(path_of("endless.jsonl"), std::nullopt).status().message(),
              HasSubstr("endless.jsonl:1: the line is longer"));
  const std::string all = write("b.csv", head + row + longest + "\n" + row);
  const uint64_t n_bytes = std::filesystem::file_size(all);
  EXPECT_TRUE(simulate::load_recorded_trace(all, n_bytes).ok());
  EXPECT_THAT(simulate::load_recorded_trace(all, n_bytes - 1).status().message(),
              HasSubstr("b.csv: larger than 1 MiB, the most that is read"));
}

constexpr const char* kSynthetic = R"(
about: Two streams.
seed: 5
limits: {blocks: 99, max_queue: 0}
step_us: {step: 100}
streams:
  - requests: 20000
    rate: 50
    prompt: {mean: 300, cv: 0.5, max: 900}
    output: {min: 10, max: 20}
    tenants: 4
    tenant: t
    prefix: {tokens: 64, variants: 3, skew: 1}
  - requests: 10
    start_s: 1
    prompt: 7
    output: 1
    priority: 2
expect: ["ttft_ms.p99 <= 500"]
expect_of: {fcfs: ["preemptions == 0"]}
)";

TEST_F(TraceTest, DrawsWhatTheFileDescribes) {
  const Trace trace = load("a.yaml", kSynthetic);
  ASSERT_EQ(trace.requests.size(), 20'010u);
  double prompts = 0, outputs = 0;
  std::vector<uint64_t> per_prefix(3), per_tenant(5);
  for (const auto& r : trace.requests) {
    ++per_tenant[r.tenant];
    if (r.priority == 2) {
      EXPECT_EQ(r.arrival_us, 1'000'000u);
      continue;
    }
    prompts += r.n_prompt;
    outputs += r.n_output;
    ++per_prefix[r.prefix];
    EXPECT_GE(r.n_output, 10u);
    EXPECT_LE(r.n_output, 20u);
    EXPECT_LE(r.n_prompt, 964u);
  }
  EXPECT_NEAR(prompts / 20'000, 364, 5);
  EXPECT_NEAR(outputs / 20'000, 15, 0.1);
  EXPECT_NEAR(static_cast<double>(trace.requests.back().arrival_us) * 1e-6, 400, 12);
  EXPECT_THAT(trace.tenants, ::testing::ElementsAre("t-0", "t-1", "t-2", "t-3", ""));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(static_cast<double>(per_tenant[i]), 5000, 250);
  EXPECT_NEAR(static_cast<double>(per_prefix[0]) / static_cast<double>(per_prefix[2]), 3, 0.3);
  EXPECT_EQ(trace.limits.n_blocks, 99u);
  EXPECT_FALSE(trace.limits.block_size.has_value());
  EXPECT_EQ(trace.cost->step, 100);
  ASSERT_EQ(trace.expectations.size(), 2u);
  EXPECT_EQ(trace.expectations[1].plugin, "fcfs");
}

TEST_F(TraceTest, IsTheSameForTheSameSeedOnly) {
  const std::string path = write("a.yaml", kSynthetic);
  const auto arrivals = [&](std::optional<uint64_t> seed) {
    const Trace trace = load_trace(path, seed).value();
    std::vector<uint64_t> out;
    for (const auto& r : trace.requests) out.push_back(r.arrival_us);
    return out;
  };
  EXPECT_EQ(arrivals(std::nullopt), arrivals(5));
  EXPECT_NE(arrivals(6), arrivals(5));
}

TEST_F(TraceTest, SaysWhereADescriptionIsWrong) {
  const auto stream = [&](const std::string& keys) {
    return error("a.yaml", "streams:\n  - {" + keys + "}\n");
  };
  EXPECT_THAT(stream("requests: 1, prompt: 1"), HasSubstr("a.yaml:2"));
  EXPECT_THAT(stream("requests: 1, prompt: 0, output: 1"), HasSubstr("prompt"));
  EXPECT_THAT(stream("requests: 1, prompt: {cv: 1}, output: 1"), HasSubstr("mean"));
  EXPECT_THAT(stream("requests: 1, prompt: {min: 9, max: 3}, output: 1"), HasSubstr("min"));
  EXPECT_THAT(stream("requests: 1, prompt: 1, output: 1, rate: 0"), HasSubstr("rate"));
  EXPECT_THAT(stream("requests: 1, prompt: 1, output: 1, rate: .nan"), HasSubstr("rate"));
  EXPECT_THAT(stream("requests: 1, promt: 1, output: 1"),
              AllOf(HasSubstr("promt"), HasSubstr("prompt")));
  EXPECT_THAT(stream("requests: 1000000000, prompt: 1, output: 1"), HasSubstr("requests"));
  EXPECT_THAT(error("a.yaml", "seed: 1\n"), HasSubstr("streams"));
  EXPECT_THAT(error("a.yaml", "expect: [\"ttft_ms.p99 is 3\"]\nstreams: []\n"),
              HasSubstr("a.yaml:1"));
  EXPECT_THAT(error("a.yaml", "step_us: {step: -1}\nstreams: []\n"), HasSubstr("step"));
  EXPECT_THAT(error("a.yaml", "step_us: {prefill_token: 1}\nstreams: []\n"), HasSubstr("step_us"));
}

}  // namespace
}  // namespace bp::testing
