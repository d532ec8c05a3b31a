// The backend's table, and structs of older and newer versions.

#include <algorithm>
#include <cstddef>

#include "sdk/conformance/levels/abi.hpp"
#include "sdk/conformance/levels/levels.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/program_copy.hpp"

namespace bp::conformance {

namespace {

void has_every_function(Subject& subject) {
  const auto* table =
      static_cast<const bp_backend_factory*>(subject.plugin().get_factory(BP_BACKEND_ID));
  require(table != nullptr, "get_factory(\"" BP_BACKEND_ID "\") gives NULL");
  require(table->struct_size >= offsetof(bp_backend_factory, get_extension),
          "bp_backend_factory.struct_size is " + std::to_string(table->struct_size) +
              ", which leaves out required functions; it must be sizeof(bp_backend_factory), " +
              std::to_string(sizeof(bp_backend_factory)));
  const bp_backend_factory f = table_of(subject);
  const std::pair<const char*, bool> functions[] = {
      {"create", f.create != nullptr},
      {"destroy", f.destroy != nullptr},
      {"check", f.check != nullptr},
      {"compile", f.compile != nullptr},
      {"destroy_executable", f.destroy_executable != nullptr},
      {"memory", f.memory != nullptr},
      {"kv_allocate", f.kv_allocate != nullptr},
      {"warm_up", f.warm_up != nullptr},
      {"submit", f.submit != nullptr},
      {"collect", f.collect != nullptr}};
  for (const auto& [name, present] : functions) {
    require(present, std::string("the required function ") + name + " is NULL");
  }
}

void knows_no_nonsense_extension(Subject& subject) {
  const bp_backend_factory table = table_of(subject);
  if (table.get_extension == nullptr) throw Skip("the backend has no get_extension");
  const BackendSession session(table, nullptr, &subject.params());
  for (const char* id : {"", "nonsense", "bp.nothing/1", "bp.device-sampling/999"}) {
    require(table.get_extension(session.backend(), id) == nullptr,
            std::string("get_extension(\"") + id + "\") must give NULL");
  }
}

Floats plain_logits(Subject& subject, TinyLlama& llama) {
  LlamaSession session(subject, llama);
  return session.logits(tokens_of(1, 20), 0, session.blocks(1, 20));
}

// The same step, with compile options and a program that the test has made.
Floats logits_of(Subject& subject, const bp_host* host, const bp_program& program,
                 const bp_compile_options& options) {
  const bp_backend_factory table = table_of(subject);
  BackendSession session(table, host, &subject.params());
  session.compile(program, options, LlamaSession::kBlocks);
  const uint32_t block_size = session.memory().block_size;
  Ints blocks;
  for (uint32_t i = 0; i * block_size < 20; ++i) blocks.push_back(static_cast<int32_t>(1 + i));
  BatchBuilder batch = LlamaSession::one(tokens_of(1, 20), 0, blocks);
  const Status status = session.run(batch.build());
  require(status.ok(), "the step fails: " + status.message());
  return batch.output(0);
}

void require_same(const Floats& expected, const Floats& found, const std::string& what) {
  require(same_bits(expected, found), what + " changes the result of a step");
}

void accepts_newer_program(Subject& subject) {
  const auto llama = make_llama(subject);
  const ProgramCopy newer(llama->program(), true);
  const Floats found =
      logits_of(subject, nullptr, newer.program(), LlamaSession::default_options());
  require_same(plain_logits(subject, *llama), found,
               "a program, weights, ops and attributes with a larger struct_size");
}

void accepts_newer_batch(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession session(subject, *llama);
  BatchBuilder builder = LlamaSession::one(tokens_of(1, 20), 0, session.blocks(1, 20));
  Newer<bp_batch> batch(builder.build());
  const Newer<bp_output> output(*batch.value.outputs[0]);
  const bp_output* outputs[] = {&output.value};
  batch.value.outputs = outputs;
  const Status status = session.run(batch.value);
  require(status.ok(), "a batch with a larger struct_size is refused: " + status.message());
  require_same(plain_logits(subject, *llama), builder.output(0),
               "a batch and an output with a larger struct_size");
}

void accepts_newer_options(Subject& subject) {
  const auto llama = make_llama(subject);
  const Newer<bp_host> host(make_growable<bp_host>());
  const Newer<bp_compile_options> options(LlamaSession::default_options());
  const Floats found = logits_of(subject, &host.value, llama->program(), options.value);
  require_same(plain_logits(subject, *llama), found,
               "a host and compile options with a larger struct_size");
}

bool g_called_beyond = false;  // a host function past the host's struct_size was called

void accepts_older_host(Subject& subject) {
  auto full = make_growable<bp_host>();
  full.log = [](void*, uint32_t, bp_str) { g_called_beyond = true; };
  full.get_extension = [](void*, const char*) -> const void* {
    g_called_beyond = true;
    return nullptr;
  };
  full.struct_size = offsetof(bp_host, log);
  const auto llama = make_llama(subject);
  const Floats found = logits_of(subject, &full, llama->program(), LlamaSession::default_options());
  require(!g_called_beyond, "it calls functions of bp_host that lie past its struct_size");
  require_same(plain_logits(subject, *llama), found, "a host with a smaller struct_size");
}

void accepts_older_options(Subject& subject) {
  const auto llama = make_llama(subject);
  const bp_compile_options old =
      older(LlamaSession::default_options(), offsetof(bp_compile_options, content_key));
  const Floats found = logits_of(subject, nullptr, llama->program(), old);
  require_same(plain_logits(subject, *llama), found, "compile options with a smaller struct_size");
}

template <class A>
void cut_attributes(ProgramCopy& copy, const char* kind, size_t n_bytes) {
  for (uint32_t i = 0; i < copy.program().n_ops; ++i) {
    if (std::string(copy.op(i).kind) != kind || copy.attributes(i) == nullptr) continue;
    A attributes;
    std::memcpy(&attributes, copy.attributes(i), sizeof attributes);
    attributes = older(attributes, n_bytes);
    std::memcpy(copy.attributes(i), &attributes, sizeof attributes);
  }
}

void accepts_older_attributes(Subject& subject) {
  const auto llama = make_llama(subject);
  ProgramCopy copy(llama->program());
  cut_attributes<bp_attr_norm>(copy, BP_OP_NORM, offsetof(bp_attr_norm, weight_offset));
  cut_attributes<bp_attr_normalize>(copy, BP_OP_NORMALIZE, offsetof(bp_attr_normalize, group));
  cut_attributes<bp_attr_attention>(copy, BP_OP_ATTENTION, offsetof(bp_attr_attention, softcap));
  cut_attributes<bp_attr_attention>(copy, BP_OP_ATTEND, offsetof(bp_attr_attention, softcap));
  cut_attributes<bp_attr_lm_head>(copy, BP_OP_LM_HEAD, offsetof(bp_attr_lm_head, softcap));
  const std::string what =
      "attributes of ops with a smaller struct_size (norm, attention, lm_head)";
  Floats found;
  try {
    found = logits_of(subject, nullptr, copy.program(), LlamaSession::default_options());
  } catch (const Failure& failure) {
    throw Failure(what + ": " + failure.what());
  }
  require_same(plain_logits(subject, *llama), found, what);
}

void writes_within_memory_info(Subject& subject) {
  const auto llama = make_llama(subject);
  LlamaSession session(subject, *llama);
  BackendSession& backend = session.backend();
  for (const size_t size :
       {size_t{8}, offsetof(bp_memory_info, available_bytes), offsetof(bp_memory_info, block_bytes),
        offsetof(bp_memory_info, k_dtype), offsetof(bp_memory_info, is_dedicated),
        offsetof(bp_memory_info, packed_block_bytes), sizeof(bp_memory_info),
        sizeof(Newer<bp_memory_info>)}) {
    Newer<bp_memory_info> info;
    std::memset(static_cast<void*>(&info.value), kPoison, sizeof info.value);
    info.value.struct_size = static_cast<uint32_t>(size);
    bp_error error{};
    const bp_status status = backend.table().memory(backend.executable(), &info.value, &error);
    require(status == BP_OK, "memory fails for a struct_size of " + std::to_string(size) + ": " +
                                 from_c(status, error).message());
    const auto* bytes = reinterpret_cast<const unsigned char*>(&info);
    for (size_t i = std::min(size, sizeof(bp_memory_info)); i < sizeof info; ++i) {
      require(bytes[i] == kPoison, "memory writes byte " + std::to_string(i) +
                                       " of a bp_memory_info whose struct_size is " +
                                       std::to_string(size));
    }
  }
}

}  // namespace

void add_abi_tests(Subject&, Tests& tests) {
  const auto add = [&](const char* name, const char* description, void (*body)(Subject&)) {
    tests.push_back({name, "abi", description, body});
  };
  add("abi-factory", "The backend's table has every required function.", has_every_function);
  add("abi-extension-ids", "get_extension gives NULL for ids that it does not know.",
      knows_no_nonsense_extension);
  add("abi-newer-program",
      "Bytes past the known end of a program, its weights, ops and attributes are not looked at.",
      accepts_newer_program);
  add("abi-newer-batch", "Bytes past the known end of a batch and its outputs are not looked at.",
      accepts_newer_batch);
  add("abi-newer-options", "Bytes past the known end of host and options are not looked at.",
      accepts_newer_options);
  add("abi-older-host", "Members of bp_host past its struct_size count as NULL.",
      accepts_older_host);
  add("abi-older-options", "Members of bp_compile_options past its struct_size count as 0.",
      accepts_older_options);
  add("abi-older-attributes", "Attributes past the struct_size have their defaults.",
      accepts_older_attributes);
  add("abi-memory-info", "memory writes at most struct_size bytes.", writes_within_memory_info);
  add_abi_unknown_tests(tests);
  add_abi_error_tests(tests);
}

}  // namespace bp::conformance
