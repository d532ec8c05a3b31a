// Bits, versions, kinds and dtypes that a plugin cannot know: refused in a sentence.

#include <algorithm>
#include <cstddef>

#include "sdk/conformance/levels/abi.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/program_copy.hpp"

namespace bp::conformance {

namespace {

constexpr uint64_t kUnknownBit = uint64_t{1} << 63;

// check and compile must both refuse the program. `op`: the one with the obstacle, BP_NONE for none
// in particular. One sentence must contain a word of `words`.
void require_refused(Subject& subject, const std::string& what, const bp_program& program,
                     uint32_t op, const std::vector<std::string>& words) {
  const bp_backend_factory table = table_of(subject);
  BackendSession session(table, nullptr, &subject.params());
  const auto obstacles = session.obstacles(program);
  require(!obstacles.empty(), what + ": check reports no obstacle");
  const auto has_word = [&](const std::string& text) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return text.find(word) != std::string::npos;
    });
  };
  const auto named = std::find_if(obstacles.begin(), obstacles.end(), [&](const auto& obstacle) {
    return (op == BP_NONE || obstacle.first == op) && has_word(obstacle.second);
  });
  if (named == obstacles.end()) {
    throw Failure(what + ": no obstacle names it" +
                  (op == BP_NONE ? "" : " at op " + std::to_string(op)) + " (\"" + words.front() +
                  "\"); the first is of op " + std::to_string(obstacles[0].first) + ": \"" +
                  obstacles[0].second + "\"");
  }
  const Status compiled = session.try_compile(program, LlamaSession::default_options());
  require(compiled.code() == Code::kUnsupported,
          what + ": compile must give UNSUPPORTED, gave " +
              std::to_string(static_cast<int>(compiled.code())) + " " + compiled.message());
  require(!compiled.message().empty(), what + ": the error of compile has no message");
}

const std::vector<std::string> kFeatureWords = {"requires", "require", "feature", "bit", "unknown"};

void refuses_bits_of_program(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  copy.header().required = kUnknownBit;
  require_refused(subject, "an unknown bit in bp_program.required", copy.program(), BP_NONE,
                  kFeatureWords);
}

void refuses_bits_of_weights(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  copy.weight(1).required = kUnknownBit;
  require_refused(subject, "an unknown bit in bp_weight.required", copy.program(), BP_NONE,
                  kFeatureWords);
}

void refuses_bits_of_ops(Subject& subject) {
  const auto llama = make_llama(subject);
  for (uint32_t i = 0; i < llama->program().n_ops; ++i) {
    ProgramCopy copy(llama->program());
    copy.op(i).required = kUnknownBit;
    require_refused(subject, std::string("an unknown bit in bp_op.required of ") + copy.op(i).kind,
                    copy.program(), i, kFeatureWords);
  }
}

void refuses_bits_of_attributes(Subject& subject) {
  const auto llama = make_llama(subject);
  for (uint32_t i = 0; i < llama->program().n_ops; ++i) {
    ProgramCopy copy(llama->program());
    if (copy.attributes(i) == nullptr) continue;
    constexpr size_t required_at = offsetof(bp_attr_attention, required);  // the same in all
    std::memcpy(static_cast<char*>(copy.attributes(i)) + required_at, &kUnknownBit,
                sizeof kUnknownBit);
    require_refused(subject,
                    std::string("an unknown bit in the attributes' required of ") + copy.op(i).kind,
                    copy.program(), i, kFeatureWords);
  }
}

void refuses_bits_of_options(Subject& subject) {
  const auto llama = make_llama(subject);
  const bp_backend_factory table = table_of(subject);
  BackendSession session(table, nullptr, &subject.params());
  bp_compile_options options = LlamaSession::default_options();
  options.required = kUnknownBit;
  const Status status = session.try_compile(llama->program(), options);
  require(status.code() == Code::kUnsupported && !status.message().empty(),
          "an unknown bit in bp_compile_options.required must be UNSUPPORTED, with a message");
}

void refuses_op_versions(Subject& subject) {
  const auto llama = make_llama(subject);
  for (uint32_t i = 0; i < llama->program().n_ops; ++i) {
    ProgramCopy copy(llama->program());
    copy.op(i).version = 999;
    require_refused(subject, std::string("version 999 of ") + copy.op(i).kind, copy.program(), i,
                    {"version", "999"});
  }
}

void refuses_unknown_kinds(Subject& subject) {
  const auto llama = make_llama(subject);
  for (const char* kind : {"com.example.nothing/1", "attention2", ""}) {
    ProgramCopy copy(llama->program());
    copy.op(2).kind = kind;
    require_refused(subject, std::string("an op of the unknown kind \"") + kind + "\"",
                    copy.program(), 2, {kind});
  }
}

void refuses_unknown_dtypes(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  bp_weight_part part = copy.weight(0).parts[0];
  part.dtype = 60000;
  copy.weight(0).parts = &part;
  require_refused(subject, "a weight of the unknown dtype 60000", copy.program(), BP_NONE,
                  {"60000", "dtype", "type", copy.weight(0).name});
}

void reports_every_obstacle(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  copy.op(1).kind = "com.example.first/1";
  copy.op(4).version = 999;
  const bp_backend_factory table = table_of(subject);
  BackendSession session(table, nullptr, &subject.params());
  const auto obstacles = session.obstacles(copy.program());
  for (const uint32_t op : {1u, 4u}) {
    const bool found = std::any_of(obstacles.begin(), obstacles.end(),
                                   [&](const auto& obstacle) { return obstacle.first == op; });
    require(found,
            "two ops have obstacles, check does not report that of op " + std::to_string(op));
  }
  session.compile(llama->program(), LlamaSession::default_options(), 8);
}

}  // namespace

void add_abi_unknown_tests(Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "abi", description, body});
  };
  add("abi-required-program", "Unknown required bits of a program are refused in a sentence.",
      refuses_bits_of_program);
  add("abi-required-weights", "Unknown required bits of a weight are refused in a sentence.",
      refuses_bits_of_weights);
  add("abi-required-ops", "Unknown required bits of an op are refused in a sentence.",
      refuses_bits_of_ops);
  add("abi-required-attributes", "Unknown required bits of attributes are refused in a sentence.",
      refuses_bits_of_attributes);
  add("abi-required-options", "Unknown required bits of compile options are refused.",
      refuses_bits_of_options);
  add("abi-op-versions", "Unknown versions of ops are refused in a sentence that names them.",
      refuses_op_versions);
  add("abi-op-kinds", "Unknown kinds of ops are refused in a sentence that names them.",
      refuses_unknown_kinds);
  add("abi-dtypes", "Unknown dtypes of weights are refused in a sentence.", refuses_unknown_dtypes);
  add("abi-check-reports-all", "check reports every obstacle and has no side effect.",
      reports_every_obstacle);
}

}  // namespace bp::conformance
