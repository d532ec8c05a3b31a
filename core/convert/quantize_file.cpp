#include "core/convert/quantize_file.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "backplane/metadata.hpp"
#include "backplane/plugin.hpp"
#include "core/convert/gguf_form.hpp"
#include "core/convert/gguf_writer.hpp"
#include "core/quantize/rows.hpp"

namespace bp::convert {

namespace {

constexpr uint64_t kPieceBytes = uint64_t{64} << 20;  // written at once

// A number, or the largest of an array with one for each layer; 0 where it is absent or no number.
uint32_t largest(MetadataView metadata, const std::string& key) {
  if (const auto scalar = metadata.get<uint32_t>(key); scalar.ok()) return *scalar;
  const auto list = metadata.array<uint32_t>(key);
  uint32_t most = 0;
  if (list.ok()) {
    for (uint64_t i = 0; i < list->size(); ++i) most = std::max(most, (*list)[i]);
  }
  return most;
}

quantize::ModelShape shape_of(const model::ModelFile& file, bool has_importance) {
  const MetadataView metadata = file.metadata();
  const auto architecture = metadata.get_or<std::string_view>("general.architecture", "");
  const std::string arch(architecture.ok() ? *architecture : "");
  quantize::ModelShape shape;
  shape.architecture = arch;
  shape.n_layers = largest(metadata, arch + ".block_count");
  const uint32_t n_heads = largest(metadata, arch + ".attention.head_count");
  const uint32_t n_kv_heads = largest(metadata, arch + ".attention.head_count_kv");
  if (n_kv_heads > 0) shape.heads_per_kv_head = n_heads / n_kv_heads;
  shape.n_experts = largest(metadata, arch + ".expert_count");
  shape.has_output = file.find_tensor("output.weight") != nullptr;
  shape.has_importance = has_importance;
  std::set<uint32_t> value_layers;
  for (const bp_tensor& tensor : file.tensors()) {
    if (const auto layer = quantize::value_layer(view(tensor.name))) value_layers.insert(*layer);
  }
  shape.value_layers.assign(value_layers.begin(), value_layers.end());
  return shape;
}

// Types of so few bits that they need to know which columns count.
bool needs_importance(bp_dtype dtype) {
  return dtype == BP_DTYPE_IQ1_S || dtype == BP_DTYPE_IQ1_M || dtype == BP_DTYPE_IQ2_XXS ||
         dtype == BP_DTYPE_IQ2_XS || dtype == BP_DTYPE_IQ2_S;
}

class FileQuantizer {
 public:
  FileQuantizer(model::ModelFile& in, const QuantizeOptions& options)
      : in_(in), options_(options), shape_(shape_of(in, options.importance != nullptr)) {}

  Result<QuantizeReport> plan() {
    BP_TRY(make_plan());
    return std::move(report_);
  }

  Result<QuantizeReport> run(const std::string& out) {
    BP_TRY(make_plan());
    base::WorkProgress progress(options_.progress, report_.n_parameters);
    std::vector<GgufTensor> tensors;
    for (const TensorChange& t : report_.tensors) tensors.push_back({t.name, t.after, t.dims});
    BP_ASSIGN(const auto alignment, in_.metadata().get_or<uint32_t>("general.alignment", 32));
    BP_ASSIGN(GgufWriter writer, GgufWriter::create(out));
    BP_TRY(writer.begin(metadata(), tensors, alignment));
    for (size_t i = 0; i < tensors.size(); ++i) {
      BP_TRY(write_tensor(in_.tensors()[i], tensors[i].dtype, writer, progress));
    }
    BP_TRY(writer.finish());
    return std::move(report_);
  }

 private:
  Status make_plan() {
    for (const bp_tensor& tensor : in_.tensors()) {
      if (tensor.n_dims == 0) {
        return invalid_argument(
            fmt::format("{}: tensor '{}' has no dimensions", in_.path(), view(tensor.name)));
      }
      const auto dims = model::dims_of(tensor);
      report_.tensors.push_back({std::string(view(tensor.name)),
                                 {dims.begin(), dims.end()},
                                 tensor.dtype,
                                 type_of(tensor)});
      count(report_.tensors.back());
    }
    add_notes();
    return {};
  }

  bp_dtype type_of(const bp_tensor& tensor) {
    const std::string name(view(tensor.name));
    const uint64_t width = tensor.dims[tensor.n_dims - 1];
    if (!quantize::is_quantised(name, tensor.n_dims)) return tensor.dtype;
    const quantize::Mixture& mixture = *options_.mixture;
    const quantize::ChosenType chosen =
        options_.pure ? quantize::of_width(mixture.dtype, width)
                      : quantize::choose_type(mixture, shape_, name, width, tensor.n_dims > 2);
    if (chosen.dtype != chosen.wanted) {
      Replaced& replaced = replaced_[{chosen.wanted, chosen.dtype, width}];
      if (replaced.n_tensors++ == 0) replaced.first = name;
    }
    requantised_ |= is_block_quantised(tensor.dtype) && is_block_quantised(chosen.dtype) &&
                    tensor.dtype != chosen.dtype;
    without_importance_ |= options_.importance == nullptr && needs_importance(chosen.dtype);
    return chosen.dtype;
  }

  void count(const TensorChange& tensor) {
    uint64_t n = 1;
    for (const uint64_t dim : tensor.dims) n *= dim;
    report_.n_parameters += n;
    report_.bytes_before += n / tensor.dims.back() * row_bytes(tensor.before, tensor.dims.back());
    report_.bytes_after += n / tensor.dims.back() * row_bytes(tensor.after, tensor.dims.back());
  }

  void add_notes() {
    for (const auto& [key, replaced] : replaced_) {
      const auto [wanted, chosen, width] = key;
      const uint64_t n_more = replaced.n_tensors - 1;
      report_.notes.push_back(fmt::format(
          "{}: rows of {} are no multiple of {}, the block of {}: {} instead{}", replaced.first,
          width, dtype_info(wanted).block_elements, dtype_name(wanted), dtype_name(chosen),
          n_more == 0 ? "" : fmt::format(", as for {} more", n_more)));
    }
    if (requantised_) {
      report_.notes.push_back(in_.path() +
                              " is quantised already, which adds to the error: a file in f16, bf16 "
                              "or f32 is the better source");
    }
    if (without_importance_) {
      report_.notes.emplace_back(
          "types of one and two bits need to know which columns count: give --imatrix FILE, which "
          "`backplane imatrix` makes");
    }
  }

  GgufMetadata metadata() const {
    GgufMetadata metadata;
    for (const bp_metadata& entry : in_.metadata().entries()) {
      const std::string_view key = view(entry.key);
      const bool replaced = key == "general.file_type" || key == "general.quantization_version" ||
                            key.starts_with("split.") || key.starts_with("quantize.imatrix.");
      if (!replaced) metadata.put(entry);
    }
    metadata.put("general.file_type", static_cast<uint32_t>(options_.mixture->file_type));
    metadata.put("general.quantization_version", uint32_t{2});
    if (options_.importance != nullptr) {
      const ImportanceMatrix& matrix = *options_.importance;
      metadata.put("quantize.imatrix.file", std::string_view(matrix.path));
      if (!matrix.datasets.empty()) {
        metadata.put("quantize.imatrix.dataset", std::string_view(matrix.datasets[0]));
      }
      metadata.put("quantize.imatrix.entries_count",
                   static_cast<uint32_t>(matrix.by_weight.size()));
      metadata.put("quantize.imatrix.chunks_count", matrix.n_chunks);
    }
    return metadata;
  }

  Status write_tensor(const bp_tensor& tensor, bp_dtype to, GgufWriter& writer,
                      base::WorkProgress& progress) {
    const std::string name(view(tensor.name));
    BP_ASSIGN(const model::TensorData data, in_.data(tensor));
    const uint64_t width = tensor.dims[tensor.n_dims - 1];
    uint64_t n_rows = 1, n_matrices = 1;
    for (uint32_t d = 0; d + 1 < tensor.n_dims; ++d) n_rows *= tensor.dims[d];
    for (uint32_t d = 0; d + 2 < tensor.n_dims; ++d) n_matrices *= tensor.dims[d];
    std::vector<float> means;
    if (options_.importance != nullptr && is_block_quantised(to)) {
      BP_ASSIGN(means, mean_squares(*options_.importance, name, n_matrices, width));
    }
    const uint64_t rows_of_matrix = n_rows / n_matrices;
    for (uint64_t m = 0; m < n_matrices; ++m) {
      const auto* first =
          static_cast<const std::byte*>(data.data) + m * rows_of_matrix * data.row_stride_bytes;
      const quantize::Rows rows{tensor.dtype, first, data.row_stride_bytes, rows_of_matrix, width};
      const float* importance = means.empty() ? nullptr : means.data() + m * width;
      const Status status = write_matrix(rows, to, importance, writer, progress);
      if (!status.ok()) {
        return status.with_context(fmt::format("{}: tensor '{}'", in_.path(), name));
      }
    }
    in_.release(tensor);
    return {};
  }

  Status write_matrix(const quantize::Rows& rows, bp_dtype to, const float* importance,
                      GgufWriter& writer, base::WorkProgress& progress) {
    const uint64_t n_bytes = row_bytes(to, rows.width);
    const uint64_t rows_at_once =
        std::clamp<uint64_t>(kPieceBytes / std::max<uint64_t>(n_bytes, 1), 1, rows.n_rows);
    piece_.resize(std::max<size_t>(piece_.size(), rows_at_once * n_bytes));
    for (uint64_t first = 0; first < rows.n_rows; first += rows_at_once) {
      quantize::Rows part = rows;
      part.data = static_cast<const std::byte*>(rows.data) + first * rows.row_stride_bytes;
      part.n_rows = std::min(rows_at_once, rows.n_rows - first);
      BP_TRY(quantize::convert_rows(part, to, {importance, part.n_rows}, options_.threads,
                                    piece_.data(), &progress));
      BP_TRY(writer.append(piece_.data(), part.n_rows * n_bytes));
    }
    return {};
  }

  model::ModelFile& in_;
  const QuantizeOptions& options_;
  const quantize::ModelShape shape_;
  QuantizeReport report_;
  // Tensors whose rows are no whole blocks of the type wanted, by it, the type chosen and the
  // width.
  struct Replaced {
    std::string first;  // the name
    uint64_t n_tensors = 0;
  };
  std::map<std::tuple<bp_dtype, bp_dtype, uint64_t>, Replaced> replaced_;
  bool requantised_ = false, without_importance_ = false;
  std::vector<std::byte> piece_;
};

Result<QuantizeReport> with_notes(Result<QuantizeReport> report,
                                  const std::vector<std::string>& notes) {
  if (report.ok()) report->notes.insert(report->notes.end(), notes.begin(), notes.end());
  return report;
}

}  // namespace

Result<QuantizeReport> plan_quantize(model::ModelFile& in, const QuantizeOptions& options) {
  if (in.dialect() == "gguf") return FileQuantizer(in, options).plan();
  BP_ASSIGN(const auto form, GgufForm::create(in, options.folders, options.threads));
  return with_notes(FileQuantizer(form->file(), options).plan(), form->notes());
}

Result<QuantizeReport> quantize_file(model::ModelFile& in, const std::string& out,
                                     const QuantizeOptions& options) {
  if (in.dialect() == "gguf") return FileQuantizer(in, options).run(out);
  BP_ASSIGN(const auto form, GgufForm::create(in, options.folders, options.threads));
  return with_notes(FileQuantizer(form->file(), options).run(out), form->notes());
}

}  // namespace bp::convert
