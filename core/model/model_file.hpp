#pragma once
// An open model file: metadata and tensors as its format plugin reports them, with the bytes that
// the core maps itself. Every range is checked against the mapped file before it becomes a pointer.

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backplane/format.h"
#include "backplane/metadata.hpp"
#include "backplane/status.hpp"
#include "core/base/work_progress.hpp"
#include "core/model/mapping.hpp"

namespace bp::model {

struct FormatChoice {
  std::string id;            // of the plugin: "gguf"
  const bp_format* factory;  // lives as long as the process
};

// A tensor with its bytes; lives as long as its ModelFile.
struct TensorData {
  const bp_tensor* info;
  const void* data;
  uint64_t row_stride_bytes;
  uint64_t n_bytes;
};

class ModelFile {
 public:
  // `format` is the id of one of `formats`, or "auto" for the most confident of them. `host`
  // outlives the result.
  static Result<std::unique_ptr<ModelFile>> open(const std::string& path,
                                                 std::span<const FormatChoice> formats,
                                                 const std::string& format, const bp_host* host);
  ~ModelFile();
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] const std::string& format() const { return format_id_; }
  [[nodiscard]] std::string_view dialect() const { return dialect_; }
  [[nodiscard]] MetadataView metadata() const { return {{file_.metadata, file_.n_metadata}}; }
  [[nodiscard]] std::span<const bp_tensor> tensors() const { return tensors_; }
  // nullptr for an unknown key or name.
  [[nodiscard]] const bp_metadata* find_metadata(std::string_view key) const;
  // Whether the file has the key without a value, as JSON's null.
  [[nodiscard]] bool is_null(std::string_view key) const;
  [[nodiscard]] const bp_tensor* find_tensor(std::string_view name) const;

  // The bytes of one of tensors(): mapped, or read into memory that this object keeps. `progress`
  // (may be null) is asked between pieces of one that is read whether to stop. [any-thread]
  Result<TensorData> data(const bp_tensor& tensor, base::WorkProgress* progress = nullptr);
  // Gives back the memory of a tensor's bytes, which nobody uses any longer; data() reads them
  // anew. [any-thread]
  void release(const bp_tensor& tensor);
  // Memory that data() has read tensors into. [any-thread]
  [[nodiscard]] uint64_t held_bytes();

  // Gives back what the format plugin holds of the file: metadata() is empty from then on, what
  // came from it is gone, and content_key() another. Does nothing where the plugin is to read
  // tensors.
  void forget_metadata();

  // Whether a path leads to one of the mapped files.
  [[nodiscard]] bool maps(const std::string& path) const;

  // Identifies the bytes: paths, sizes, times of change, metadata keys, the tensor table, and what
  // lies in the middle of some mapped tensors.
  [[nodiscard]] std::string content_key() const;

 private:
  ModelFile(std::string path, std::string format_id, bp_format format, bp_model_file* opened);
  void keep_tensors();
  Status check_tables();
  Status map_files();
  // Bytes of a file that the content key is made of.
  struct Sample {
    uint32_t file;
    uint64_t offset, n_bytes;
  };
  [[nodiscard]] std::vector<Sample> samples() const;
  void ask_for_small_parts() const;
  Result<TensorData> read(const bp_tensor& tensor, base::WorkProgress* progress);
  Status read_rows(const bp_tensor& tensor, uint64_t row, std::byte* to,
                   base::WorkProgress* progress);

  std::string path_;
  std::string format_id_;
  bp_format format_;
  bp_model_file* opened_;  // null once the metadata is forgotten
  bp_model_file file_;     // of this build's size
  std::string dialect_;
  std::vector<bp_tensor> tensors_;  // with names in tensor_names_
  std::string tensor_names_;
  std::vector<std::unique_ptr<Mapping>> mappings_;  // by file index
  std::unordered_map<std::string_view, const bp_metadata*> metadata_by_key_;
  std::unordered_map<std::string_view, const bp_tensor*> tensors_by_name_;
  std::mutex read_mutex_;
  // By read_mutex_.
  std::unordered_map<const bp_tensor*, std::unique_ptr<std::byte[]>> read_;
};

// "[32, 64]", outermost first.
std::string dims_text(std::span<const uint64_t> dims);
// Of a tensor that the file holds.
[[nodiscard]] inline uint64_t product(std::span<const uint64_t> dims) {
  uint64_t n = 1;
  for (const uint64_t dim : dims) n *= dim;
  return n;
}
[[nodiscard]] inline std::span<const uint64_t> dims_of(const bp_tensor& tensor) {
  return {tensor.dims, tensor.n_dims};
}

}  // namespace bp::model
