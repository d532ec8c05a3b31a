#pragma once
// A whole model as the ABI shows it.

#include <memory>
#include <string>
#include <vector>

#include "backplane/format.h"
#include "formats/gguf/part.hpp"

namespace bp::gguf {

class Model {
 public:
  static Result<std::unique_ptr<Model>> open(const std::string& path);
  explicit Model(std::vector<Part> parts);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Lives as long as the model.
  [[nodiscard]] bp_model_file* view() { return &view_; }

 private:
  std::vector<Part> parts_;
  std::vector<const char*> paths_;
  std::vector<bp_tensor> tensors_;
  bp_model_file view_;
};

}  // namespace bp::gguf
