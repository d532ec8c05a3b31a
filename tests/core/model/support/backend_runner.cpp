#include "tests/core/model/support/backend_runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "backplane/batch.h"
#include "backplane/plugin.hpp"
#include "core/plugin/library.hpp"
#include "tests/support/gguf_fixture.hpp"

namespace bp::model::test {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Step {
  std::vector<int32_t> tokens, positions, blocks;
  std::vector<uint32_t> query_start, context_len, rows;
  std::vector<float> logits;
  int32_t status = -1;
  int32_t state_in = 0, state_out = 0;
};

// Tokens [first, first + n) of one sequence whose blocks are 1, 2, ...
Status run_step(const plugin::ExecutableHandle& executable, const Program& program, Step& step) {
  const bp_program& c = program.c();
  const std::vector<bp_block_table> tables(
      c.n_kv_groups, {step.blocks.data(), static_cast<uint32_t>(step.blocks.size()), 0});
  auto output = make_growable<bp_output>();
  output.n_rows = static_cast<uint32_t>(step.rows.size());
  output.dtype = BP_DTYPE_F32;
  output.rows = step.rows.data();
  output.data = step.logits.data();
  output.row_stride_bytes = step.logits.size() * sizeof(float);
  const bp_output* outputs[] = {&output};
  auto batch = make_growable<bp_batch>();
  batch.n_tokens = static_cast<uint32_t>(step.tokens.size());
  batch.n_seqs = 1;
  batch.n_groups = c.n_kv_groups;
  batch.n_outputs = step.rows.empty() ? 0 : 1;
  batch.tokens = step.tokens.data();
  batch.positions = step.positions.data();
  batch.query_start = step.query_start.data();
  batch.context_len = step.context_len.data();
  batch.block_tables = tables.data();
  batch.state_in = &step.state_in;
  batch.state_out = &step.state_out;
  batch.outputs = outputs;
  batch.seq_status = &step.status;
  uint64_t ticket = 0;
  BP_TRY(executable.submit(batch, ticket));
  BP_TRY(executable.collect(ticket));
  return step.status == BP_SEQ_OK ? Status() : internal_error("the sequence failed");
}

}  // namespace

ResourceFolders source_folders() {
  const std::string source = environment("BACKPLANE_SOURCE_DIR");
  return {{source + "/configs/architectures"}, source + "/sdk/ops"};
}

Result<LoadedModel> load_gguf(const std::string& path, ResourceFolders folders) {
  static const plugin::HostServices host;
  const FormatChoice format{"gguf", testing::gguf_format()};
  if (format.factory == nullptr) return io_error("the gguf plugin is not built");
  LoadOptions options;
  options.path = path;
  options.formats = {&format, 1};
  options.host = host.get();
  options.folders = std::move(folders);
  return load_model(options);
}

Result<std::unique_ptr<BackendRunner>> BackendRunner::create(const std::string& id) {
  const std::string manifest_path =
      environment("BACKPLANE_BUILD_DIR") + "/lib/backplane/" + id + ".plugin.yaml";
  BP_ASSIGN(const plugin::Manifest manifest, plugin::read_manifest(manifest_path));
  BP_ASSIGN(const auto library, plugin::Library::load(manifest));
  plugin::ParamMap config;
  for (const plugin::FieldSpec& field : manifest.config) {
    if (field.fallback) config[field.name] = *field.fallback;
  }
  auto host = std::make_unique<plugin::HostServices>();
  BP_ASSIGN(plugin::BackendHandle backend,
            plugin::BackendHandle::create(library->factory<bp_backend_factory>(BP_BACKEND_ID),
                                          host->get(), config));
  return std::unique_ptr<BackendRunner>(new BackendRunner(std::move(host), std::move(backend)));
}

CheckFunction BackendRunner::check() const {
  return [this](const bp_program& program) { return backend_.check(program); };
}

Result<std::vector<float>> BackendRunner::last_logits(const Program& program,
                                                      const std::vector<int32_t>& tokens,
                                                      uint32_t chunk) const {
  std::vector<uint32_t> steps;
  for (size_t first = 0; first < tokens.size(); first += chunk) {
    steps.push_back(static_cast<uint32_t>(std::min<size_t>(chunk, tokens.size() - first)));
  }
  BP_ASSIGN(auto logits, run_steps(program, tokens, steps, BP_DTYPE_NONE));
  return std::move(logits.back());
}

Result<std::vector<std::vector<float>>> BackendRunner::decoded_logits(
    const Program& program, const std::vector<int32_t>& tokens, uint32_t n_prompt) const {
  std::vector<uint32_t> steps(1 + tokens.size() - n_prompt, 1);
  steps[0] = n_prompt;
  return run_steps(program, tokens, steps, BP_DTYPE_F32);
}

Result<std::vector<std::vector<float>>> BackendRunner::run_steps(const Program& program,
                                                                 const std::vector<int32_t>& tokens,
                                                                 const std::vector<uint32_t>& steps,
                                                                 bp_dtype kv) const {
  const bp_program& c = program.c();
  auto options = make_growable<bp_compile_options>();
  options.n_threads = 2;
  options.max_context = static_cast<uint32_t>(tokens.size());
  options.max_step_tokens = *std::max_element(steps.begin(), steps.end());
  options.max_sequences = 1;
  options.max_output_rows = 1;
  options.k_dtype = options.v_dtype = kv;
  BP_ASSIGN(const plugin::ExecutableHandle executable, backend_.compile(c, options));
  BP_ASSIGN(const bp_memory_info memory, executable.memory());
  const size_t n_blocks = (tokens.size() + memory.block_size - 1) / memory.block_size;
  std::vector<uint32_t> counts(c.n_kv_groups, static_cast<uint32_t>(n_blocks + 1));
  if (c.n_state_slots > 0) counts.push_back(3);
  BP_TRY(executable.kv_allocate(counts));
  BP_TRY(executable.warm_up(nullptr));
  Step step;
  step.blocks.resize(n_blocks);
  std::iota(step.blocks.begin(), step.blocks.end(), 1);
  step.logits.resize(c.values[c.outputs[0]].width);
  std::vector<std::vector<float>> logits;
  size_t first = 0;
  for (const uint32_t n : steps) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(first);
    step.tokens.assign(begin, begin + static_cast<ptrdiff_t>(n));
    step.positions.resize(n);
    std::iota(step.positions.begin(), step.positions.end(), static_cast<int32_t>(first));
    step.query_start = {0, n};
    step.context_len = {static_cast<uint32_t>(first + n)};
    step.rows = {n - 1};
    step.state_in = step.state_out;  // 0 at first, then 1 and 2 in turn
    step.state_out = step.state_in == 1 ? 2 : 1;
    BP_TRY(run_step(executable, program, step));
    logits.push_back(step.logits);
    first += n;
  }
  return logits;
}

double relative_rms(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, squares = 0, difference = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    sum += b[i];
    squares += double{b[i]} * b[i];
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  const auto n = static_cast<double>(b.size());
  return std::sqrt(difference / n) / std::sqrt(squares / n - sum / n * (sum / n));
}

}  // namespace bp::model::test
