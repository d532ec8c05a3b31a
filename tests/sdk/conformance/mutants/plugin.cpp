// The reference backend with one mistake, which the configuration names. Mistakes at the boundary
// of the ABI are made here, around the C++ layer's functions, which would not let them through.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>
#include <stdexcept>
#include <thread>

#include "backplane/reference/backend.hpp"
#include "executable.hpp"

namespace bp::mutants {

namespace {

// A program whose ops claim to be of version 1 and whose attributes claim to be whole.
class TamedProgram {
 public:
  explicit TamedProgram(const bp_program& program) : program_(program) {
    for (uint32_t i = 0; i < program.n_ops; ++i) ops_.push_back(copy_growable(program.ops[i]));
    for (bp_op& op : ops_) {
      op.version = 1;
      op.attributes = whole(op);
      table_.push_back(&op);
    }
    program_.ops = table_.data();
  }
  [[nodiscard]] const bp_program& get() const { return program_; }

 private:
  const void* whole(const bp_op& op) {
    const OpSchema* schema = find_op_schema(kind_of(op));
    if (schema == nullptr || op.attributes == nullptr) return op.attributes;
    AttributeBuffer& copy = attributes_.emplace_back((schema->attributes_bytes + 7) / 8);
    std::memcpy(copy.data(), op.attributes, schema->attributes_bytes);
    std::memcpy(copy.data(), &schema->attributes_bytes, sizeof(uint32_t));
    return copy.data();
  }

  bp_program program_;
  std::vector<bp_op> ops_;
  std::vector<const bp_op*> table_;
  std::deque<AttributeBuffer> attributes_;
};

// Where no memory is found, the wrong error.
Status take(void* (*allocate)(size_t)) {
  void* volatile block = allocate(64);
  if (block == nullptr) return internal_error("something went wrong");
  std::free(block);
  return {};
}

// Of a library that is no part of the plugin.
using Allocate = void* (*)(size_t);
Allocate driver_malloc() {
  void* const driver = dlopen(MUTANT_DRIVER, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (driver == nullptr) throw std::bad_alloc();
  return reinterpret_cast<Allocate>(dlsym(driver, "driver_malloc"));
}

class MutantBackend final : public reference::ReferenceBackend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params& params) {
    auto backend = std::make_unique<MutantBackend>(host);
    backend->mutation_ = params.get_string("mutation", "none");
    if (backend->mutation_ == "leak-in-create") leak();
    if (backend->mutation_ == "descriptor-leak") static_cast<void>(open("/dev/null", O_RDONLY));
    if (backend->mutation_ == "thread-left") std::thread([] { pause(); }).detach();
    if (backend->mutation_ == "signal-ignored") std::signal(SIGPIPE, SIG_IGN);
    if (backend->mutation_ == "environment-changed") setenv("MUTANT", "1", 1);
    if (backend->mutation_ == "short-memory-is-internal") BP_TRY(take(std::malloc));
    if (backend->mutation_ == "driver-allocates") BP_TRY(take(driver_malloc()));
    return std::unique_ptr<Backend>(std::move(backend));
  }
  explicit MutantBackend(const Host& host) : ReferenceBackend(host, reference::Settings()) {}
  [[nodiscard]] const std::string& mutation() const { return mutation_; }
  // Lives as long as the backend.
  const bp_program& tamed(const bp_program& program) { return tamed_.emplace_back(program).get(); }

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
  std::deque<TamedProgram> tamed_;
};

constexpr bp_backend_factory kCorrect = backend_factory<MutantBackend>();

MutantBackend& cpp(bp_backend* backend) {
  return *static_cast<MutantBackend*>(reinterpret_cast<Backend*>(backend));
}
bool is(bp_backend* backend, std::string_view mutation) {
  return cpp(backend).mutation() == mutation;
}
bool is(bp_executable* executable, std::string_view mutation) {
  auto* cpp = reinterpret_cast<Executable*>(executable);
  return static_cast<MutantExecutable*>(cpp)->mutation() == mutation;
}

template <class Object>
bp_status spoil(Object* object, bp_status status, bp_error* error) {
  if (status == BP_OK || error == nullptr) return status;
  if (is(object, "message-unterminated")) std::memset(error->message, 'x', sizeof error->message);
  if (is(object, "message-missing")) error->message[0] = '\0';
  return status;
}

// Passes the first obstacle on.
struct FirstObstacle {
  bp_check_report given;
  bool found = false;

  static void obstacle(void* user, uint32_t op, bp_str sentence) {
    auto* self = static_cast<FirstObstacle*>(user);
    if (!self->found) self->given.obstacle(self->given.user, op, sentence);
    self->found = true;
  }
};

bp_status check(bp_backend* backend, const bp_program* program, const bp_check_report* report,
                bp_error* error) {
  if (is(backend, "unknown-version-accepted")) {
    return kCorrect.check(backend, &cpp(backend).tamed(*program), report, error);
  }
  if (is(backend, "first-obstacle-only")) {
    FirstObstacle first{copy_growable(report)};
    bp_check_report mine = first.given;
    mine.user = &first;
    mine.obstacle = FirstObstacle::obstacle;
    return kCorrect.check(backend, program, &mine, error);
  }
  return spoil(backend, kCorrect.check(backend, program, report, error), error);
}

bp_status compile(bp_backend* backend, const bp_program* program, const bp_compile_options* options,
                  bp_executable** out, bp_error* error) {
  bp_compile_options mine = copy_growable(options);
  if (is(backend, "f16-kv-only")) {
    const bool other = mine.k_dtype != BP_DTYPE_NONE && mine.k_dtype != BP_DTYPE_F16;
    if (other) return to_c(unsupported("the KV cache is f16"), error);
    mine.k_dtype = mine.v_dtype = BP_DTYPE_F16;
  }
  if (is(backend, "unknown-bits-accepted")) mine.required = 0;
  if (is(backend, "struct-size-ignored")) program = &cpp(backend).tamed(*program);
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
