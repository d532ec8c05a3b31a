// How a call that fails reports it.

#include <cstring>
#include <functional>

#include "sdk/conformance/levels/abi.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/program_copy.hpp"

namespace bp::conformance {

namespace {

// Calls that must fail: f(error) -> status.
using FailingCall = std::function<bp_status(bp_error*)>;

void for_each_failing_call(Subject& subject,
                           const std::function<void(const char*, const FailingCall&)>& visit) {
  const auto llama = make_llama(subject);
  ProgramCopy unknown(llama->program());
  unknown.op(0).kind = "com.example.nothing/1";
  LlamaSession session(subject, *llama);
  BackendSession& backend = session.backend();
  const bp_backend_factory& table = backend.table();
  const bp_compile_options options = LlamaSession::default_options();
  visit("check of an unknown op", [&](bp_error* error) {
    auto report = make_growable<bp_check_report>();
    report.obstacle = [](void*, uint32_t, bp_str) {};
    return table.check(backend.backend(), &unknown.program(), &report, error);
  });
  visit("compile of an unknown op", [&](bp_error* error) {
    auto* const untouched = reinterpret_cast<bp_executable*>(uintptr_t{0x5a5a5a50});
    bp_executable* out = untouched;
    const bp_status status =
        table.compile(backend.backend(), &unknown.program(), &options, &out, error);
    require(out == untouched, "compile fails but writes *out");
    return status;
  });
  visit("submit of a block id out of range", [&](bp_error* error) {
    BatchBuilder builder = LlamaSession::one({1}, 0, {-1});
    const bp_batch batch = builder.build();
    uint64_t ticket = 0x5a5a5a5a;
    const bp_status status = table.submit(backend.executable(), &batch, &ticket, error);
    require(ticket == 0x5a5a5a5a, "submit fails but writes *ticket");
    return status;
  });
}

void fills_errors(Subject& subject) {
  for_each_failing_call(subject, [](const char* what, const FailingCall& call) {
    struct {
      bp_error error;
      unsigned char guard[64];
    } guarded;
    std::memset(static_cast<void*>(&guarded), kPoison, sizeof guarded);
    const bp_status status = call(&guarded.error);
    require(status != BP_OK, std::string(what) + " succeeds");
    require(guarded.error.status == status,
            std::string(what) + ": bp_error.status is " + std::to_string(guarded.error.status) +
                ", the function returned " + std::to_string(status));
    const size_t length = strnlen(guarded.error.message, sizeof guarded.error.message);
    require(length < sizeof guarded.error.message,
            std::string(what) + ": the message does not end with NUL within 508 bytes");
    require(length > 0 && static_cast<unsigned char>(guarded.error.message[0]) != kPoison,
            std::string(what) + ": the error has no message");
    for (const unsigned char byte : guarded.guard) {
      require(byte == kPoison, std::string(what) + ": it writes past the end of bp_error");
    }
  });
}

// A name of 2000 bytes, which a message may quote.
void cuts_long_messages(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  const std::string long_name(2000, 'x');
  copy.op(0).kind = long_name.c_str();
  copy.op(0).name = long_name.c_str();
  const bp_backend_factory table = table_of(subject);
  BackendSession session(table, nullptr, &subject.params());
  struct {
    bp_error error;
    unsigned char guard[4096];
  } guarded;
  std::memset(static_cast<void*>(&guarded), kPoison, sizeof guarded);
  bp_executable* out = nullptr;
  const bp_compile_options options = LlamaSession::default_options();
  require(
      table.compile(session.backend(), &copy.program(), &options, &out, &guarded.error) != BP_OK,
      "an op of an unknown kind compiles");
  require(strnlen(guarded.error.message, sizeof guarded.error.message) < 508,
          "the message does not end with NUL within 508 bytes");
  for (const unsigned char byte : guarded.guard) {
    require(byte == kPoison, "compile writes past the end of bp_error");
  }
}

void needs_no_error(Subject& subject) {
  for_each_failing_call(subject, [](const char* what, const FailingCall& call) {
    require(call(nullptr) != BP_OK, std::string(what) + " succeeds");
  });
}

}  // namespace

void add_abi_error_tests(Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "abi", description, body});
  };
  add("abi-errors",
      "A call that fails fills bp_error and nothing else: status, a message, no byte beyond.",
      fills_errors);
  add("abi-long-messages", "A long message ends within bp_error.", cuts_long_messages);
  add("abi-null-error", "The bp_error of a call may be NULL.", needs_no_error);
}

}  // namespace bp::conformance
