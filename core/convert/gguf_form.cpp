#include "core/convert/gguf_form.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "core/convert/gguf_parameters.hpp"
#include "core/convert/gguf_vocabulary_keys.hpp"
#include "core/model/rope_parameters.hpp"
#include "core/text/gguf_vocabulary.hpp"

namespace bp::convert {

namespace {

constexpr const char* kId = "gguf-form";

bool has_tokenizer(MetadataView metadata) {
  return metadata.contains("tokenizer.huggingface.json") ||
         metadata.contains("tokenizer.sentencepiece.model");
}

int64_t integer(const model::Scope& scope, const char* name) {
  const auto value = scope.find(name);
  return value ? value->as_int().value_or(0) : 0;
}

std::string text(const model::Scope& scope, const char* name) {
  const auto value = scope.find(name);
  return value && value->as_string() != nullptr ? *value->as_string() : "";
}

Result<std::vector<float>> no_floats(const base::Yaml&, const std::string&) {
  return std::vector<float>();
}

bool are_close(const model::RopeTable& a, const model::RopeTable& b) {
  const auto near = [](double x, double y) {
    return std::abs(x - y) <= 1e-5 * std::max(std::abs(x), std::abs(y));
  };
  return near(a.magnitude, b.magnitude) && std::ranges::equal(a.inv_freq, b.inv_freq, near);
}

}  // namespace

Result<std::unique_ptr<GgufForm>> GgufForm::create(model::ModelFile& source,
                                                   const model::ResourceFolders& folders,
                                                   const bp_threads* threads) {
  BP_ASSIGN(auto choice, model::find_architecture(source, folders.architectures));
  std::unique_ptr<GgufForm> form(new GgufForm(source, std::move(choice), threads));
  BP_TRY(form->put_metadata());
  BP_TRY(form->open());
  model::ModelScope written(*form->file_, form->choice_.architecture);
  BP_TRY(form->read_written(written));
  BP_TRY(form->plan_tensors(written));
  BP_TRY(form->compare(written).with_context(source.path()));
  BP_TRY(form->put_tokenizer());
  BP_TRY(form->open());
  return form;
}

GgufForm::GgufForm(model::ModelFile& source, model::ArchitectureChoice choice,
                   const bp_threads* threads)
    : source_(source),
      choice_(std::move(choice)),
      scope_(source, choice_.architecture),
      tensors_(source, choice_, scope_, threads),
      host_(make_growable<bp_host>()),
      format_(make_growable<bp_format>()),
      opened_(make_growable<bp_model_file>()) {
  host_.user = this;
  format_.open = open_file;
  format_.close = [](bp_model_file*) {};
  format_.read = read;
}

Status GgufForm::put_metadata() {
  scope_.values["context"] = int64_t{0};
  BP_TRY(read_parameters(source_, choice_, scope_));
  for (const model::WeightSpec& spec : choice_.architecture.weights) {
    of_source_[spec.name] = of_written_[spec.name] = BP_NONE;
  }
  for (const NamedWeight& weight : gguf_names(source_, choice_.architecture, 0)) {
    if (!weight.source.empty()) of_source_[weight.spec->name] = 0;
  }
  scope_.weights = &of_source_;
  for (const model::RopeSpec& spec : choice_.architecture.ropes) {
    BP_ASSIGN(const model::RopeTable table, rope_table(spec, scope_, false));
    if (!spec.magnitude.empty()) scope_.values[spec.magnitude] = table.magnitude;
    BP_TRY(give_divisors(spec, table));
  }
  BP_TRY(put_parameters(choice_.architecture, scope_, metadata_));
  metadata_.put_string("general.type", "model");
  std::filesystem::path folder(source_.path());
  if (!folder.has_filename()) folder = folder.parent_path();
  metadata_.put_string("general.name", folder.filename().string());
  return {};
}

// Of Llama 3's scaling, which GGUF files hold as a tensor.
Status GgufForm::give_divisors(const model::RopeSpec& spec, const model::RopeTable& table) {
  BP_ASSIGN(model::RopeParameters plain, rope_parameters(spec, scope_, no_floats));
  if (plain.scaling != "llama3" || spec.divisors.empty()) return {};
  plain.scaling = "none";
  BP_ASSIGN(const model::RopeTable unscaled, model::make_rope_table(plain));
  std::vector<float> divisors;
  for (size_t i = 0; i < table.inv_freq.size(); ++i) {
    divisors.push_back(unscaled.inv_freq[i] / table.inv_freq[i]);
  }
  tensors_.give(spec.divisors, std::move(divisors));
  return {};
}

// After plan_tensors: the embedding has as many rows as the vocabulary is padded to.
Status GgufForm::put_tokenizer() {
  if (!has_tokenizer(source_.metadata())) {
    notes_.push_back(source_.path() +
                     " has neither tokenizer.json nor tokenizer.model, and the GGUF file therefore "
                     "no tokenizer");
    return {};
  }
  BP_ASSIGN(auto vocabulary, text::read_vocabulary(source_.metadata()));
  auto in_gguf = text::gguf_vocabulary(std::move(vocabulary), integer(scope_, "n_vocab"));
  if (!in_gguf.ok()) return in_gguf.status().with_context(source_.path());
  put_vocabulary(*in_gguf, metadata_);
  return {};
}

Status GgufForm::open() {
  opened_.dialect = "gguf";
  opened_.n_metadata = metadata_.entries().size();
  opened_.metadata = metadata_.entries().data();
  opened_.n_tensors = table_.size();
  opened_.tensors = table_.data();
  opened_.impl = this;
  const model::FormatChoice choice{kId, &format_};
  BP_ASSIGN(file_, model::ModelFile::open(source_.path(), {&choice, 1}, kId, &host_));
  return {};
}

Status GgufForm::read_written(model::ModelScope& written) const {
  model::ArchitectureChoice choice = choice_;
  BP_ASSIGN(choice.name, file_->metadata().get<std::string_view>("general.architecture"));
  written.values["context"] = int64_t{0};
  return read_parameters(*file_, choice, written);
}

Status GgufForm::plan_tensors(model::ModelScope& written) {
  BP_ASSIGN(planned_,
            tensors_.plan(integer(scope_, "n_layers"), text(written, "rope_pairing"), written));
  written.weights = &of_written_;
  for (const model::WeightSpec& spec : choice_.architecture.weights) {
    const bool is_there = of_source_[spec.name] != BP_NONE || !tensors_.given(spec.name).empty();
    if (is_there) of_written_[spec.name] = 0;
  }
  if (!tensors_.unused().empty()) {
    notes_.push_back(fmt::format("{}: {}; they are left out", source_.path(),
                                 model::unused_text(tensors_.unused())));
  }
  for (const GgufTensor& tensor : planned_) {
    bp_tensor entry{};
    entry.name = to_bp_str(tensor.name);
    entry.dtype = tensor.dtype;
    entry.n_dims = static_cast<uint32_t>(tensor.dims.size());
    std::ranges::copy(tensor.dims, entry.dims);
    entry.row_stride_bytes = row_bytes(tensor.dtype, tensor.dims.back());
    entry.n_bytes = tensor_bytes(tensor.dtype, tensor.dims).value_or(0);
    entry.offset = BP_NO_OFFSET;
    table_.push_back(entry);
  }
  return {};
}

// Of the source, or of what is written.
Result<model::RopeTable> GgufForm::rope_table(const model::RopeSpec& spec,
                                              const model::Scope& scope, bool is_written) const {
  const auto floats = [&](const base::Yaml&, const std::string& weight) {
    return Result<std::vector<float>>(is_written ? tensors_.given(weight) : std::vector<float>());
  };
  BP_ASSIGN(const model::RopeParameters parameters, rope_parameters(spec, scope, floats));
  auto table = make_rope_table(parameters);
  if (table.ok()) return table;
  return table.status().with_context(
      fmt::format("{}: rope {} ({})", source_.path(), spec.name, spec.place.place()));
}

Status GgufForm::compare(const model::ModelScope& written) {
  BP_TRY(compare_parameters(choice_.architecture, scope_, written));
  scope_.weights = &of_source_;
  BP_TRY(compare_ropes(scope_, written));
  note_longer_contexts(written);
  return {};
}

Status GgufForm::compare_ropes(const model::ModelScope& source,
                               const model::ModelScope& written) const {
  for (const model::RopeSpec& spec : choice_.architecture.ropes) {
    BP_ASSIGN(const auto before, rope_table(spec, source, false));
    const auto after = rope_table(spec, written, true);
    if (after.ok() && are_close(before, *after)) continue;
    return unsupported(
        fmt::format("GGUF has no place for this scaling of rotary positions ({}, {})", spec.name,
                    spec.place.place()));
  }
  return {};
}

// Dynamic scaling begins where the model's own context ends.
void GgufForm::note_longer_contexts(const model::ModelScope& written) {
  const int64_t own = integer(scope_, "context_length");
  model::ModelScope source = scope_, longer = written;
  source.values["context"] = longer.values["context"] = 2 * own;
  if (compare_ropes(source, longer).ok()) return;
  notes_.push_back(
      fmt::format("{}: rotary positions are scaled for contexts of more than {} tokens, which GGUF "
                  "has no place for; set `context` to no more",
                  source_.path(), own));
}

bp_status GgufForm::open_file(const bp_host* host, const char*, bp_model_file** out, bp_error*) {
  *out = &static_cast<GgufForm*>(host->user)->opened_;
  return BP_OK;
}

bp_status GgufForm::read(bp_model_file* file, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                         void* destination, bp_error* error) {
  auto& form = *static_cast<GgufForm*>(file->impl);
  const bp_tensor& entry = form.table_[tensor];
  const uint64_t row = entry.row_stride_bytes;
  if (n_rows * row == entry.n_bytes) return to_c(form.tensors_.make(tensor, destination), error);
  std::vector<std::byte> whole(entry.n_bytes);
  const Status status = form.tensors_.make(tensor, whole.data());
  if (status.ok()) std::memcpy(destination, whole.data() + first_row * row, n_rows * row);
  return to_c(status, error);
}

}  // namespace bp::convert
