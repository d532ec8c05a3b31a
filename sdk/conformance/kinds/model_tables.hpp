#pragma once
// A format's plugin at work, and what must hold of the tables of any model that it opened.

#include <filesystem>
#include <memory>
#include <string>

#include "backplane/format.h"
#include "backplane/plugin.hpp"

namespace bp::conformance {

// A model while it is open.
class OpenModel {
 public:
  // Throws Failure where the plugin breaks a rule of failing: a code of its own, no sentence, an
  // output that it touched. The status is what it answered.
  OpenModel(const bp_format& format, const std::filesystem::path& path);
  ~OpenModel();
  OpenModel(const OpenModel&) = delete;
  OpenModel& operator=(const OpenModel&) = delete;

  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const bp_model_file& tables() const { return tables_; }  // while status is ok
  // Rows of a tensor that lies in no file.
  Status read(uint64_t tensor, uint64_t first_row, uint64_t n_rows, void* destination) const;

 private:
  bp_format format_;
  bp_model_file* model_ = nullptr;
  bp_model_file tables_{};
  Status status_;
};

// Throws Failure naming the first thing that is wrong: names that are not unique, unknown types,
// tensors outside their files. Reads every byte of names and metadata.
void require_sound(const OpenModel& model);

// All that the tables say, as text; equal for equal models.
[[nodiscard]] std::string text_of(const bp_model_file& tables);

}  // namespace bp::conformance
