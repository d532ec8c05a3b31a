// A fault on the device, between two steps and while two are in flight: the backend's calls must
// give DEVICE_LOST with a sentence, and this process must go on to its end. usage: lost
// PLUGIN.plugin.yaml [KEY=VALUE ...]

#include <cstdio>
#include <optional>
#include <string>

#include "bench/cuda/fault.hpp"
#include "bench/cuda/shapes.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"

namespace {

using namespace bp;
using namespace bp::conformance;

constexpr const char* kShape = "tiny";

int fail(const std::string& wrong, int code) {
  std::fprintf(stderr, "lost: %s\n", wrong.c_str());
  return code;
}

void require_lost(const std::string& what, const Status& status) {
  std::printf("%s: %s\n", what.c_str(), status.message().c_str());
  require(status.code() == Code::kDeviceLost, what + " did not give DEVICE_LOST");
  require(!status.message().empty(), what + " failed without a sentence");
}

BatchBuilder one_token(const bench::Shape& shape) {
  BatchBuilder batch;
  batch.add_sequence({1}, 0, {1});
  batch.add_output(0, {0}, shape.n_vocab);
  return batch;
}

// Steps, and a model on a backend that is made afterwards.
void lose(Subject& subject, const bench::Shape& shape) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  ProgramBuilder program;
  bench::build_model(shape, *bench::find_mix("bf16"), program);
  BackendSession session(factory, nullptr, &subject.params());
  const bp_compile_options options = BackendSession::default_options();
  session.compile(program.build(), options, 4);
  BatchBuilder builder = one_token(shape);
  const bp_batch batch = builder.build(1);
  const Status before = session.run(batch);
  require(before.ok(), "a step before the fault: " + before.message());
  bench::break_device();
  require_lost("a step after the fault", session.run(batch));
  require_lost("the step after that", session.run(batch));
  std::optional<BackendSession> other;
  try {
    other.emplace(factory, nullptr, &subject.params());
  } catch (const Failure& failure) {
    std::printf("another backend: %s\n", failure.what());
    return;
  }
  require_lost("another model", other->try_compile(program.build(), options));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fail("PLUGIN.plugin.yaml is needed", 2);
  Options options;
  options.set.assign(argv + 2, argv + argc);
  auto subject = Subject::open(argv[1], options);
  if (!subject.ok()) return fail(subject.status().message(), 2);
  try {
    lose(**subject, *bench::find_shape(kShape));
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
  std::printf("the device was lost, the process goes on\n");
  return 0;
}
