#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <deque>
#include <map>
#include <optional>

#include "backends/cuda/device/cublas.hpp"
#include "backends/cuda/device/matrix_library.hpp"

namespace bp::cuda {

class CublasLibrary : public MatrixLibrary {
 public:
  // Works without a workspace where none fits. `cublas` outlives it.
  static Result<std::unique_ptr<MatrixLibrary>> open(const Cublas& cublas, Device& device,
                                                     cudaStream_t stream);
  // Whether it has products of 8-bit floats on the current device.
  static bool knows_fp8(const Cublas& cublas);
  CublasLibrary(const Cublas& cublas, cudaStream_t stream, Memory workspace)
      : cublas_(cublas),
        lt_(cublas.functions()),
        stream_(stream),
        workspace_(std::move(workspace)),
        most_workspace_(workspace_.size()) {}
  ~CublasLibrary() override;

  Status multiply(const LibraryProduct& product) override;
  [[nodiscard]] uint64_t n_bytes() const override { return workspace_.size(); }

 private:
  // What an algorithm is chosen by. The choice takes tens of microseconds and is kept: products of
  // captured graphs choose while warming up, prompts when their length comes up for the first time.
  struct Key {
    bp_dtype dtype;
    uint32_t n_rows, n_columns, n_in, y_stride;
    uint64_t w_row_bytes, x_row_bytes;
    auto operator<=>(const Key&) const = default;
  };
  struct Chosen {
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
    std::optional<cublasLtMatmulAlgo_t> algorithm;  // none where the library has none
    bool is_done = false;                           // an exception may have passed before it was
  };
  static Result<std::unique_ptr<CublasLibrary>> make(const Cublas& cublas, cudaStream_t stream,
                                                     Memory workspace);
  Result<Chosen*> choose(const LibraryProduct& product);
  Status find_algorithm(Chosen& chosen);
  void release(Chosen& chosen);
  void make_room();

  const Cublas& cublas_;
  const CublasFunctions& lt_;
  cudaStream_t stream_;
  Memory workspace_;
  size_t most_workspace_;                       // bytes, of an algorithm
  cublasLtMatmulDesc_t description_ = nullptr;  // y = w^T x, all by columns
  std::map<Key, Chosen> chosen_;
  std::deque<Key> oldest_first_;  // of chosen_
};

}  // namespace bp::cuda
