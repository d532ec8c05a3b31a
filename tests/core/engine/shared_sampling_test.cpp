// The host's team samples the rows of a step, or the engine's thread alone: answers are the same.

#include <atomic>
#include <filesystem>
#include <thread>

#include "core/plugin/thread_team.hpp"
#include "fixture.hpp"

namespace bp::engine::testing {
namespace {

constexpr uint32_t kSequences = 12;

ptrdiff_t n_threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

class SharedSamplingTest : public EngineTest {
 protected:
  SharedSamplingTest() { model.n_vocab = 9000; }  // rows that are worth a worker

  std::vector<std::vector<int32_t>> answers(plugin::ThreadTeam* team) {
    EngineOptions options;
    options.team = team;
    options.defaults = {{"temperature", 0.8}, {"top_p", 0.9}};
    start(options);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < kSequences; ++i) {
      requests.push_back(make_request(make_prompt(i, 5), 20));
      requests.back().seed = i;
    }
    std::vector<std::vector<int32_t>> tokens;
    for (const auto& sink : submit_together(std::move(requests))) {
      tokens.push_back(sink->wait()[0].tokens);
    }
    return tokens;
  }
};

TEST_F(SharedSamplingTest, GivesWhatOneThreadGives) {
  const auto expected = answers(nullptr);
  plugin::ThreadTeam team(3);
  const ptrdiff_t before = n_threads_now();
  EXPECT_EQ(answers(&team), expected);
  EXPECT_EQ(n_threads_now(), before + 2) << "the team's workers start with its first job";
}

TEST_F(SharedSamplingTest, DoesNotWaitForATeamAtWork) {
  const auto expected = answers(nullptr);
  plugin::ThreadTeam team(2);
  struct {
    std::atomic<bool> begun{false}, done{false};
  } job;
  std::thread other([&] {
    const auto wait = [](void* argument, uint32_t, uint32_t, bp_team*) {
      auto& j = *static_cast<decltype(job)*>(argument);
      j.begun = true;
      j.done.wait(false);
    };
    EXPECT_TRUE(team.try_run(0, wait, &job));
  });
  while (!job.begun) std::this_thread::yield();
  EXPECT_EQ(answers(&team), expected);
  job.done = true;
  job.done.notify_all();
  other.join();
}

}  // namespace
}  // namespace bp::engine::testing
