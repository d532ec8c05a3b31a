#include "backends/cpu/stages/pieces.hpp"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/weights/file_pages.hpp"

namespace bp::cpu {

namespace {

// Pieces that a worker's share has at least, where there are strips enough: what it waits for
// others at the end is about one piece.
constexpr uint32_t kSharePieces = 16;
// Pairs of strips that a worker's share has at least, for strips to be multiplied in pairs.
constexpr uint32_t kMinSharePairs = 4;

// A chunk takes five eighths of the second-level cache.
constexpr size_t kMinChunkBytes = size_t{256} << 10;
constexpr size_t kMaxChunkBytes = size_t{1280} << 10;
constexpr uint32_t kMinChunkRows = 48;  // a multiple of all panels
constexpr uint32_t kMaxChunkRows = 512;

size_t choose_chunk_bytes() {
  const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return std::clamp(static_cast<size_t>(std::max(cache, 0L)) / 8 * 5, kMinChunkBytes,
                    kMaxChunkBytes);
}

}  // namespace

uint32_t piece_strips(uint32_t n_strips, uint32_t n_workers, bool in_pairs) {
  const uint32_t unit = in_pairs && n_strips >= 2 * kMinSharePairs * n_workers ? 2 : 1;
  return std::clamp(n_strips / (kSharePieces * n_workers) / unit * unit, unit, kPieceStrips);
}

ChunkSize::ChunkSize(uint32_t width, const ActivationForms& forms) : forms_(forms) {
  const size_t row_bytes =
      forms.floats ? width * sizeof(float) : panel_words(1, width) * sizeof(int32_t);
  const auto fitting =
      static_cast<uint32_t>(std::min<size_t>(choose_chunk_bytes() / row_bytes, ~0u));
  most_rows_ = std::clamp(fitting, kMinChunkRows, kMaxChunkRows);
}

uint32_t ChunkSize::panel(const Kernels& kernels) const {
  const uint32_t panel = forms_.panels ? kernels.max_panel_rows : 1;
  return forms_.bf16 && kernels.bf16_dot != nullptr ? std::lcm(panel, kernels.bf16_panel_rows)
                                                    : panel;
}

uint32_t ChunkSize::rows(const Kernels& kernels) const {
  return most_rows_ / panel(kernels) * panel(kernels);
}

uint32_t ChunkSize::even_rows(const Kernels& kernels, uint32_t n_rows) const {
  return even_part(n_rows, rows(kernels), panel(kernels));
}

void read_ahead(const PreparedWeight& weight) {
  read_ahead(weight.bytes().data(), weight.bytes().size());
}

void dot_strips(const Kernels& kernels, const PreparedWeight& weight, Range strips,
                const Activations& x, uint32_t first, uint32_t n, float* y, uint8_t* scratch) {
  weight.dot_strips(kernels, strips.begin, strips.end - strips.begin, x, first, n, y, kPieceColumns,
                    scratch);
}

}  // namespace bp::cpu
