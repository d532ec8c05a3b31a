#pragma once
// A model of another dialect as the GGUF file that it becomes. Names, layouts, metadata and
// tokenizer follow from the two dialects of its architecture; tensors are made as they are read.

#include <memory>

#include "core/convert/gguf_tensors.hpp"
#include "core/convert/metadata_table.hpp"
#include "core/model/resources.hpp"
#include "core/model/rope_table.hpp"

namespace bp::convert {

class GgufForm {
 public:
  // threads may be null. Errors say what GGUF has no place for.
  static Result<std::unique_ptr<GgufForm>> create(model::ModelFile& source,
                                                  const model::ResourceFolders& folders,
                                                  const bp_threads* threads);
  GgufForm(const GgufForm&) = delete;

  // Dialect gguf. Lives as long as this object, which refers to the source.
  [[nodiscard]] model::ModelFile& file() { return *file_; }
  // What of the source is not in it and only sometimes missed, a line each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  GgufForm(model::ModelFile& source, model::ArchitectureChoice choice, const bp_threads* threads);

  Status put_metadata();
  Status put_tokenizer();
  // Opens what is there so far as a file of metadata, and reads its hyper-parameters.
  Status open();
  Status read_written(model::ModelScope& written) const;
  Status give_divisors(const model::RopeSpec& spec, const model::RopeTable& table);
  Status plan_tensors(model::ModelScope& written);
  Status compare(const model::ModelScope& written);
  [[nodiscard]] Status compare_ropes(const model::ModelScope& source,
                                     const model::ModelScope& written) const;
  void note_longer_contexts(const model::ModelScope& written);
  Result<model::RopeTable> rope_table(const model::RopeSpec& spec, const model::Scope& scope,
                                      bool is_written) const;

  static bp_status open_file(const bp_host* host, const char* path, bp_model_file** out,
                             bp_error* error);
  static bp_status read(bp_model_file* file, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                        void* destination, bp_error* error);

  model::ModelFile& source_;
  const model::ArchitectureChoice choice_;
  model::ModelScope scope_;                                 // of the source
  std::map<std::string, uint32_t> of_source_, of_written_;  // weights; BP_NONE: absent
  GgufTensors tensors_;
  MetadataTable metadata_;
  std::vector<std::string> notes_;
  std::vector<GgufTensor> planned_;
  std::vector<bp_tensor> table_;
  bp_host host_;
  bp_format format_;
  bp_model_file opened_;
  std::unique_ptr<model::ModelFile> file_;
};

}  // namespace bp::convert
