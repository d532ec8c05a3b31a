#include "tests/core/model/support/fake_model.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"

namespace bp::model::test {

FakeModel::FakeModel(std::string dialect) : dialect_(std::move(dialect)) {}

FakeModel& FakeModel::tensor(const std::string& name, std::vector<uint64_t> dims, bp_dtype dtype,
                             std::vector<float> values) {
  remove(name);
  const std::string& kept = names_.emplace_back(name);
  bp_tensor tensor{};
  tensor.name = to_bp_str(kept);
  tensor.dtype = dtype;
  tensor.n_dims = static_cast<uint32_t>(dims.size());
  tensor.row_stride_bytes = row_bytes(dtype, dims.back());
  tensor.n_bytes = tensor.row_stride_bytes;
  for (size_t d = 0; d < dims.size(); ++d) {
    tensor.dims[d] = dims[d];
    if (d + 1 < dims.size()) tensor.n_bytes *= dims[d];
  }
  tensor.offset = BP_NO_OFFSET;
  tensors_.push_back(tensor);
  if (!values.empty()) values_[name] = std::move(values);
  return *this;
}

FakeModel& FakeModel::remove(const std::string& name) {
  std::erase_if(tensors_, [&](const bp_tensor& t) { return view(t.name) == name; });
  return *this;
}

bp_tensor& FakeModel::entry(const std::string& name) {
  for (bp_tensor& tensor : tensors_) {
    if (view(tensor.name) == name) return tensor;
  }
  throw std::out_of_range(name);
}

uint32_t FakeModel::probe(const char*, uint32_t, const uint8_t*, uint64_t) {
  return 50;
}

bp_status FakeModel::open_file(const bp_host* host, const char*, bp_model_file** out, bp_error*) {
  const auto& model = *static_cast<const FakeModel*>(host->user);
  model.file_table_.clear();
  for (const std::string& file : model.files) model.file_table_.push_back(file.c_str());
  auto opened = make_growable<bp_model_file>();
  opened.n_files = static_cast<uint32_t>(model.files.size());
  opened.dialect = model.dialect_.c_str();
  opened.files = model.file_table_.data();
  opened.n_metadata = model.metadata.entries().size();
  opened.metadata = model.metadata.entries().data();
  opened.n_tensors = model.tensors_.size();
  opened.tensors = model.tensors_.data();
  opened.impl = host->user;
  model.opened_ = opened;
  *out = &model.opened_;
  return BP_OK;
}

void FakeModel::close(bp_model_file* file) {
  ++static_cast<const FakeModel*>(file->impl)->n_closed;
}

bp_status FakeModel::read(bp_model_file* file, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                          void* destination, bp_error*) {
  const auto& model = *static_cast<const FakeModel*>(file->impl);
  const bp_tensor& entry = model.tensors_[tensor];
  const uint64_t row = row_bytes(entry.dtype, entry.dims[entry.n_dims - 1]);
  ++model.n_reads[std::string(view(entry.name))];
  std::memset(destination, 0, n_rows * row);
  const auto values = model.values_.find(std::string(view(entry.name)));
  if (values == model.values_.end()) return BP_OK;
  const auto* bytes = reinterpret_cast<const char*>(values->second.data());
  std::memcpy(destination, bytes + first_row * row, n_rows * row);
  return BP_OK;
}

bp_host FakeModel::host() const {
  auto host = make_growable<bp_host>();
  host.user = const_cast<FakeModel*>(this);
  return host;
}

bp_format FakeModel::format() const {
  auto format = make_growable<bp_format>();
  format.probe = probe;
  format.open = open_file;
  format.close = close;
  if (can_read) format.read = read;
  return format;
}

Result<LoadedModel> FakeModel::load(ResourceFolders folders, bool strict, uint32_t context) const {
  host_ = host();
  format_ = format();
  const FormatChoice choice{"fake", &format_};
  LoadOptions options;
  options.path = "/proc/self/exe";  // any file that exists
  options.formats = {&choice, 1};
  options.host = &host_;
  options.folders = std::move(folders);
  options.strict = strict;
  options.context = context;
  options.quantize = quantize;
  options.progress = progress;
  return load_model(options);
}

Result<std::unique_ptr<ModelFile>> FakeModel::open() const {
  host_ = host();
  format_ = format();
  const FormatChoice choice{"fake", &format_};
  return ModelFile::open("/proc/self/exe", {&choice, 1}, "auto", &host_);
}

void fill_llama(FakeModel& model) {
  model.metadata.string("general.architecture", "llama")
      .u64("llama.block_count", 2)
      .u64("llama.context_length", 64)
      .u64("llama.embedding_length", 32)
      .u64("llama.feed_forward_length", 48)
      .u64("llama.attention.head_count", 4)
      .u64("llama.attention.head_count_kv", 2)
      .f64("llama.attention.layer_norm_rms_epsilon", 1e-5);
  model.tensor("token_embd.weight", {10, 32});
  model.tensor("output_norm.weight", {32}).tensor("output.weight", {10, 32});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string p = layer;
    model.tensor(p + "attn_norm.weight", {32}).tensor(p + "ffn_norm.weight", {32});
    model.tensor(p + "attn_q.weight", {32, 32}).tensor(p + "attn_k.weight", {16, 32});
    model.tensor(p + "attn_v.weight", {16, 32}).tensor(p + "attn_output.weight", {32, 32});
    model.tensor(p + "ffn_gate.weight", {48, 32}).tensor(p + "ffn_up.weight", {48, 32});
    model.tensor(p + "ffn_down.weight", {32, 48});
  }
}

void fill_hugging_face_llama(FakeModel& model) {
  model.metadata.strings("config.architectures", {"LlamaForCausalLM"})
      .string("config.model_type", "llama")
      .i64("config.num_hidden_layers", 2)
      .i64("config.max_position_embeddings", 64)
      .i64("config.hidden_size", 32)
      .i64("config.intermediate_size", 48)
      .i64("config.num_attention_heads", 4)
      .i64("config.num_key_value_heads", 2)
      .i64("config.vocab_size", 10)
      .f64("config.rms_norm_eps", 1e-5)
      .string("config.hidden_act", "silu");
  model.tensor("model.embed_tokens.weight", {10, 32}).tensor("model.norm.weight", {32});
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string p = layer;
    model.tensor(p + "input_layernorm.weight", {32});
    model.tensor(p + "post_attention_layernorm.weight", {32});
    model.tensor(p + "self_attn.q_proj.weight", {32, 32});
    model.tensor(p + "self_attn.k_proj.weight", {16, 32});
    model.tensor(p + "self_attn.v_proj.weight", {16, 32});
    model.tensor(p + "self_attn.o_proj.weight", {32, 32});
    model.tensor(p + "mlp.gate_proj.weight", {48, 32}).tensor(p + "mlp.up_proj.weight", {48, 32});
    model.tensor(p + "mlp.down_proj.weight", {32, 48});
  }
}

}  // namespace bp::model::test
