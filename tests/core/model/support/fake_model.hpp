#pragma once
// A model without a file: a bp_format whose open gives hand-made tables, and whose tensors are read
// as zeros but for those given values.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "backplane/format.h"
#include "core/model/model.hpp"
#include "tests/support/metadata_builder.hpp"

namespace bp::model::test {

class FakeModel {
 public:
  explicit FakeModel(std::string dialect);
  FakeModel(const FakeModel&) = delete;

  bp::testing::MetadataBuilder metadata;

  // A tensor without offset; replaces one of the same name.
  FakeModel& tensor(const std::string& name, std::vector<uint64_t> dims,
                    bp_dtype dtype = BP_DTYPE_F32, std::vector<float> values = {});
  FakeModel& remove(const std::string& name);
  // The entry itself, to break it.
  bp_tensor& entry(const std::string& name);
  std::vector<std::string> files;
  bool can_read = true;
  QuantizeAtLoad quantize;                          // of load()
  const bp_progress* progress = nullptr;            // likewise
  mutable std::map<std::string, uint32_t> n_reads;  // of each tensor, whole or in parts
  mutable uint32_t n_closed = 0;

  // Loads it; refers to this object.
  Result<LoadedModel> load(ResourceFolders folders, bool strict = false,
                           uint32_t context = 0) const;
  Result<std::unique_ptr<ModelFile>> open() const;

 private:
  struct Host;
  static uint32_t probe(const char*, uint32_t, const uint8_t*, uint64_t);
  static bp_status open_file(const bp_host* host, const char* path, bp_model_file** out,
                             bp_error* error);
  static void close(bp_model_file* file);
  static bp_status read(bp_model_file* file, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                        void* destination, bp_error* error);
  [[nodiscard]] bp_host host() const;
  [[nodiscard]] bp_format format() const;

  std::string dialect_;
  std::deque<std::string> names_;
  std::vector<bp_tensor> tensors_;
  std::map<std::string, std::vector<float>> values_;
  mutable bp_host host_{};
  mutable bp_format format_{};
  mutable std::vector<const char*> file_table_;
  mutable bp_model_file opened_{};
};

// A llama of 2 layers: dim 32, 4 heads, 2 KV heads of 8, n_ff 48, 10 tokens, context 64.
void fill_llama(FakeModel& model);  // in GGUF's names
void fill_hugging_face_llama(FakeModel& model);

}  // namespace bp::model::test
