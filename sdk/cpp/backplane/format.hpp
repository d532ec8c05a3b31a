#pragma once
// Formats in C++: derive from ModelFile, give it the static functions
//   uint32_t probe(std::string_view path, bool is_folder, std::span<const uint8_t> head)
//   Result<std::unique_ptr<ModelFile>> open(const Host&, const std::string& path)
// and register bp::format_factory<MyModelFile>() with BP_PLUGIN.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backplane/format.h"
#include "backplane/plugin.hpp"

namespace bp {

// An open model. What its tables point to is the derived class's, and lives as long as it.
class ModelFile {
 public:
  virtual ~ModelFile() = default;
  // Rows of a tensor without an offset, as bp_format::read says.
  virtual Status read(uint64_t tensor, uint64_t /*first_row*/, uint64_t /*n_rows*/,
                      void* /*destination*/) {
    return unsupported("tensor " + std::to_string(tensor) + " is read from its file");
  }

  std::string dialect;             // how names are to be read: "gguf", "huggingface"
  std::vector<std::string> files;  // absolute paths
  std::vector<bp_metadata> metadata;
  std::vector<bp_tensor> tensors;
};

namespace detail {

template <class F>
struct FormatAdapter {
  struct Opened {
    bp_model_file view{};
    std::unique_ptr<ModelFile> model;
    std::vector<const char*> paths;
  };
  static ModelFile& cpp(bp_model_file* file) { return *static_cast<Opened*>(file->impl)->model; }

  static uint32_t probe(const char* path, uint32_t is_folder, const uint8_t* head,
                        uint64_t n_head) {
    uint32_t confidence = 0;
    const bp_status status = guarded(nullptr, [&]() -> Status {
      confidence = F::probe(path == nullptr ? "" : path, is_folder != 0,
                            {head, head == nullptr ? 0 : n_head});
      return {};
    });
    return status == BP_OK ? confidence : 0;
  }
  static bp_status open(const bp_host* host, const char* path, bp_model_file** out,
                        bp_error* error) {
    return guarded(error, [&]() -> Status {
      if (path == nullptr) return invalid_argument("a format opens a path, none was given");
      auto opened = std::make_unique<Opened>();
      BP_ASSIGN(opened->model, F::open(Host(host), path));
      const ModelFile& model = *opened->model;
      for (const std::string& file : model.files) opened->paths.push_back(file.c_str());
      opened->view = make_growable<bp_model_file>();
      opened->view.n_files = static_cast<uint32_t>(opened->paths.size());
      opened->view.dialect = model.dialect.c_str();
      opened->view.files = opened->paths.data();
      opened->view.n_metadata = model.metadata.size();
      opened->view.metadata = model.metadata.data();
      opened->view.n_tensors = model.tensors.size();
      opened->view.tensors = model.tensors.data();
      opened->view.impl = opened.get();
      *out = &opened.release()->view;
      return {};
    });
  }
  static void close(bp_model_file* file) {
    if (file != nullptr) delete static_cast<Opened*>(file->impl);
  }
  static bp_status read(bp_model_file* file, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                        void* destination, bp_error* error) {
    return guarded(error, [&] { return cpp(file).read(tensor, first_row, n_rows, destination); });
  }
};

}  // namespace detail

template <class F>
[[nodiscard]] constexpr bp_format format_factory() {
  using A = detail::FormatAdapter<F>;
  return {sizeof(bp_format), 0, A::probe, A::open, A::close, A::read};
}

}  // namespace bp
