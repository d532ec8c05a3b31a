// The reference backend with one mistake, which the configuration names. Mistakes at the boundary
// of the ABI are made here, around the C++ layer's functions, which would not let them through.

#include <fcntl.h>

#include <cstring>
#include <stdexcept>

#include "backplane/reference/backend.hpp"
#include "executable.hpp"

namespace bp::mutants {

namespace {

class MutantBackend final : public reference::ReferenceBackend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params) {
    auto backend = std::make_unique<MutantBackend>(host);
    backend->mutation_ = params.get_string("mutation", "none");
    if (backend->mutation_ == "leak-in-create") leak();
    if (backend->mutation_ == "descriptor-leak") static_cast<void>(open("/dev/null", O_RDONLY));
    return std::unique_ptr<Backend>(std::move(backend));
  }
  explicit MutantBackend(const Host& host) : ReferenceBackend(host, reference::Settings()) {}
  [[nodiscard]] const std::string& mutation() const { return mutation_; }

  // No mistake: a backend may know composites alone or primitives alone.
  void check(const bp_program& program, CheckReport& report) override {
    ReferenceBackend::check(program, report);
    for (uint32_t i = 0; i < program.n_ops; ++i) {
      const bp_op op = copy_growable(program.ops[i]);
      const OpSchema* schema = find_op_schema(kind_of(op));
      if (schema == nullptr || schema->kind == BP_OP_SELECT_ROWS) continue;
      if (mutation_ == (schema->composite ? "primitives-only" : "composites-only")) {
        report.obstacle(i, describe(op) + ": not of the kind that this backend knows");
      }
    }
  }

 protected:
  std::unique_ptr<reference::ReferenceExecutable> make_executable(
      const bp_program& program, const bp_compile_options& options) override {
    return std::make_unique<MutantExecutable>(host(), program, options, mutation_);
  }

 private:
  std::string mutation_;
};

constexpr bp_backend_factory kCorrect = backend_factory<MutantBackend>();

bool is(bp_backend* backend, std::string_view mutation) {
  return static_cast<MutantBackend*>(reinterpret_cast<Backend*>(backend))->mutation() == mutation;
}
bool is(bp_executable* executable, std::string_view mutation) {
  auto* cpp = reinterpret_cast<Executable*>(executable);
  return static_cast<MutantExecutable*>(cpp)->mutation() == mutation;
}

// A program whose ops claim to be of version 1 and to require nothing.
class TamedProgram {
 public:
  explicit TamedProgram(const bp_program& program) : program_(program) {
    program_.required = 0;
    for (uint32_t i = 0; i < program.n_ops; ++i) ops_.push_back(copy_growable(program.ops[i]));
    for (bp_op& op : ops_) {
      op.version = 1;
      table_.push_back(&op);
    }
    program_.ops = table_.data();
  }
  [[nodiscard]] const bp_program* get() const { return &program_; }

 private:
  bp_program program_;
  std::vector<bp_op> ops_;
  std::vector<const bp_op*> table_;
};

template <class Object>
bp_status spoil(Object* object, bp_status status, bp_error* error) {
  if (status == BP_OK || error == nullptr) return status;
  if (is(object, "message-unterminated")) std::memset(error->message, 'x', sizeof error->message);
  if (is(object, "message-missing")) error->message[0] = '\0';
  return status;
}

bp_status check(bp_backend* backend, const bp_program* program, const bp_check_report* report,
                bp_error* error) {
  if (is(backend, "unknown-version-accepted")) {
    return kCorrect.check(backend, TamedProgram(*program).get(), report, error);
  }
  return spoil(backend, kCorrect.check(backend, program, report, error), error);
}

bp_status compile(bp_backend* backend, const bp_program* program, const bp_compile_options* options,
                  bp_executable** out, bp_error* error) {
  bp_compile_options mine = copy_growable(options);
  if (is(backend, "unknown-bits-accepted")) mine.required = 0;
  const bp_status status = kCorrect.compile(backend, program, &mine, out, error);
  if (status != BP_OK && is(backend, "exception-escapes")) throw std::runtime_error("no compile");
  if (status != BP_OK && is(backend, "output-touched-on-error")) *out = nullptr;
  return spoil(backend, status, error);
}

// Fills the struct of this build, whatever room the caller has.
bp_status memory(bp_executable* executable, bp_memory_info* out, bp_error* error) {
  if (!is(executable, "struct-too-large")) return kCorrect.memory(executable, out, error);
  auto info = make_growable<bp_memory_info>();
  const bp_status status = kCorrect.memory(executable, &info, error);
  if (status == BP_OK) std::memcpy(out, &info, sizeof info);
  return status;
}

bp_status submit(bp_executable* executable, const bp_batch* batch, uint64_t* ticket,
                 bp_error* error) {
  bp_batch mine = copy_growable(batch);
  if (is(executable, "unknown-bits-accepted")) mine.required = 0;
  const bp_status status = kCorrect.submit(executable, &mine, ticket, error);
  return spoil(executable, status, error);
}

constexpr bp_backend_factory mutated_factory() {
  bp_backend_factory factory = kCorrect;
  factory.check = check;
  factory.compile = compile;
  factory.memory = memory;
  factory.submit = submit;
  return factory;
}

constexpr bp_backend_factory kFactory = mutated_factory();

}  // namespace
}  // namespace bp::mutants

BP_PLUGIN("mutants", "1.0.0", {BP_BACKEND_ID, &bp::mutants::kFactory});
