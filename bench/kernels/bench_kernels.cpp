// bench_kernels [THREADS [ISA [TYPE [COLUMNS]]]]: what each dot kernel reads with one row of
// activations, from memory that no cache holds, in bytes of the file and as packed, and what it
// computes with 4, 16 and 192 rows, each beside a probe of plain reading taken right before; and
// how fast bytes of the file are packed. Give ratios: the absolute figures move with the machine's
// neighbours.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/rows/panels.hpp"
#include "backends/cpu/stages/pieces.hpp"
#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/threads/team.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/dtype.hpp"

namespace bp::cpu {
namespace {

constexpr size_t kWeightBytes = size_t{512} << 20;
constexpr uint32_t kManyRows = 192;
constexpr uint32_t kManyRowsStrips = 64;
constexpr double kSeconds = 0.3;

using Clock = std::chrono::steady_clock;

// Runs work until kSeconds are over; seconds of the fastest run.
double fastest(const std::function<void()>& work) {
  double best = 1e9;
  const auto end = Clock::now() + std::chrono::duration<double>(kSeconds);
  do {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  } while (Clock::now() < end);
  return best;
}

Range share(uint32_t worker, uint32_t n_workers, uint32_t n_things) {
  return {worker * n_things / n_workers, (worker + 1) * n_things / n_workers};
}

class Bench {
 public:
  Bench(const Kernels& kernels, const Team& team, const AlignedBuffer& memory, uint32_t n_columns)
      : kernels_(kernels), team_(team), memory_(memory), n_columns_(n_columns) {}

  // Bytes a second of summing all of memory as floats.
  double read_rate() {
    std::vector<float> sums(team_.n_threads());
    const double seconds = fastest([&] {
      team_.run(0, [&](uint32_t worker, uint32_t n, bp_team*) {
        const size_t part = memory_.size() / n / sizeof(float) / 16 * 16;
        const auto* floats = reinterpret_cast<const float*>(memory_.data());
        sums[worker] = probe_.sum(floats + worker * part, part);
      });
    });
    consume(sums.data());
    return static_cast<double>(memory_.size()) / seconds;
  }

  void run(bp_dtype dtype) {
    const size_t row = row_bytes(dtype, n_columns_);
    const auto n_rows = static_cast<uint32_t>(kWeightBytes / row / kStripRows * kStripRows);
    const auto one = prepare(dtype, n_rows);
    const auto many = prepare(dtype, kManyRowsStrips * kStripRows);
    if (one == nullptr || many == nullptr) return;
    const double probe = read_rate();
    const double seconds = product_seconds(*one, 1);
    const double read = static_cast<double>(row) * n_rows / seconds;
    std::printf("%-7s %-7s %6.1f GB/s of %5.1f (%3.0f %%", kernels_.name, dtype_name(dtype).data(),
                read * 1e-9, probe * 1e-9, 100 * read / probe);
    if (one->takes_panels()) {
      std::printf(", packed %3.0f %%",
                  100 * static_cast<double>(one->packed_bytes()) / seconds / probe);
    }
    std::printf(")");
    for (const uint32_t n : {4u, 16u, kManyRows}) std::printf(" %7.3f", tops(*many, n));
    std::printf(" TOPS, from memory");
    for (const uint32_t n : {4u, 16u}) std::printf(" %7.3f", tops(*one, n));
    if (one->takes_panels()) std::printf(", packs %5.1f GB/s", pack_rate(dtype) * 1e-9);
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  std::shared_ptr<const PreparedWeight> prepare(bp_dtype dtype, uint32_t n_rows) {
    constexpr uint32_t file = 0;  // as a model's rows are: others stay where they are in memory
    const WeightRows rows{
        memory_.data(), row_bytes(dtype, n_columns_), dtype, n_rows, n_columns_, file};
    auto weight = std::make_shared<PreparedWeight>(rows, Prepare::kCache, kernels_.bf16_layout);
    if (!weight->has_strips()) return weight;
    auto strips = arena_.allocate(weight->packed_bytes());
    if (!strips.ok()) {
      std::fprintf(stderr, "%s\n", strips.status().message().c_str());
      return nullptr;
    }
    team_.parallel_for(weight->n_strips(), [&](uint64_t i) {
      weight->pack_into(static_cast<uint32_t>(i), 1, (*strips).get() + i * weight->strip_bytes());
    });
    weight->place(std::move(strips).value());
    return weight;
  }

  double tops(const PreparedWeight& weight, uint32_t n_rows) {
    return 2e-12 * n_columns_ * weight.n_rows() * n_rows / product_seconds(weight, n_rows);
  }

  // Bytes of the file a second, rows and strips in cache.
  double pack_rate(bp_dtype dtype) {
    const size_t row = row_bytes(dtype, n_columns_);
    constexpr uint32_t n_strips = 16;
    const size_t strip = strip_bytes(*strip_layout_of(dtype), n_columns_);
    std::vector<uint8_t> strips(team_.n_threads() * strip);
    const double seconds = fastest([&] {
      team_.run(0, [&](uint32_t worker, uint32_t n, bp_team*) {
        const Range own = share(worker, n, n_strips);
        for (uint32_t s = own.begin; s < own.end; ++s) {
          pack_strip(dtype, memory_.data() + s * kStripRows * row, row, kStripRows, n_columns_,
                     strips.data() + worker * strip);
        }
      });
    });
    return static_cast<double>(n_strips * kStripRows * row) / seconds;
  }

  double product_seconds(const PreparedWeight& weight, uint32_t n_rows) {
    // Rows and panels begin where a line does, and rows are no power of two apart, as in a step.
    const size_t stride = n_columns_ + size_t{16};
    auto rows = AlignedBuffer::allocate(n_rows * stride * sizeof(float), "rows");
    if (!rows.ok()) return 0;
    const std::span<float> x(reinterpret_cast<float*>(rows->data()), n_rows * stride);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) - 50;
    const size_t panel_words = panels_words(n_rows, kernels_.max_panel_rows, n_columns_);
    const size_t panel_bytes = (panel_words * sizeof(int32_t) + 63) / 64 * 64;
    auto forms = AlignedBuffer::allocate(
        panel_bytes + size_t{n_rows} * n_columns_ * kernels_.bf16_bytes, "activations");
    if (!forms.ok()) return 0;
    auto* panels = reinterpret_cast<int32_t*>(forms->data());
    uint8_t* const bf16 = forms->data() + panel_bytes;
    for_each_panel(0, n_rows, kernels_.max_panel_rows, n_columns_, [&](const PanelPlace& panel) {
      for (uint32_t t = 0; t < panel.n; ++t) {
        kernels_.quantize_row(x.data() + (panel.first + t) * stride, n_columns_,
                              panels + panel.word, panel.n, t, max_seconds(panel.n, n_columns_));
      }
    });
    const Activations activations{n_rows, x.data(), stride, panels, bf16};
    for (uint32_t t = 0; kernels_.bf16_pack != nullptr && t < n_rows; ++t) {
      pack_bf16_row(kernels_, x.data() + t * stride, n_columns_, activations, t);
    }
    constexpr size_t piece_columns = kPieceStrips * kStripRows;
    std::vector<float> y(size_t{team_.n_threads()} * n_rows * piece_columns);
    const size_t scratch_bytes = (weight.scratch_bytes(kernels_) + 63) / 64 * 64;
    auto scratch = AlignedBuffer::allocate(team_.n_threads() * scratch_bytes + 64, "scratch");
    if (!scratch.ok()) return 0;
    const double seconds = fastest([&] {
      team_.run(0, [&](uint32_t worker, uint32_t n, bp_team*) {
        const Range own = share(worker, n, weight.n_strips());
        float* out = y.data() + size_t{worker} * n_rows * piece_columns;
        for (uint32_t s = own.begin; s < own.end; s += kPieceStrips) {
          weight.dot_strips(kernels_, s, std::min(kPieceStrips, own.end - s), activations, 0,
                            n_rows, out, piece_columns, (*scratch).data() + worker * scratch_bytes);
        }
      });
    });
    consume(y.data());
    return seconds;
  }

  // Keeps the compiler from leaving out what it sees nobody read.
  static void consume(const float* values) { asm volatile("" : : "r"(values) : "memory"); }

  const Kernels& kernels_;
  const Kernels& probe_ = kernels_of(available_isas().back());
  const Team& team_;
  const AlignedBuffer& memory_;
  const uint32_t n_columns_;
  WeightArena arena_;
};

int run_all(uint32_t n_threads, std::string_view only, std::string_view type, uint32_t n_columns) {
  const auto team = Team::create(Host(), n_threads);
  const auto memory = AlignedBuffer::allocate(kWeightBytes, "weights");
  if (!memory.ok()) return 1;
  // Bytes 0x3c to 0x3f: ordinary numbers in every type. Some are small beside them, as in a model:
  // packed bf16 keeps them apart.
  team->parallel_for(64, [&](uint64_t i) {
    constexpr size_t part = kWeightBytes / 64, step = 5002;
    uint8_t* const own = (*memory).data() + i * part;
    std::memset(own, 0x3c + static_cast<int>(i % 4), part);
    for (size_t at = 0; at < part; at += step) std::memset(own + at, 0x2c, sizeof(uint16_t));
  });
  std::printf("%u threads, %u columns; one row of activations; 4, 16 and %u\n", team->n_threads(),
              n_columns, kManyRows);
  for (const Isa isa : available_isas()) {
    if (!only.empty() && only != isa_name(isa)) continue;
    Bench bench(kernels_of(isa), *team, *memory, n_columns);
    for (const bp_dtype dtype :
         {BP_DTYPE_F32,    BP_DTYPE_F16,     BP_DTYPE_BF16,  BP_DTYPE_Q8_0,    BP_DTYPE_Q4_0,
          BP_DTYPE_Q4_1,   BP_DTYPE_Q5_0,    BP_DTYPE_Q5_1,  BP_DTYPE_Q2_K,    BP_DTYPE_Q3_K,
          BP_DTYPE_Q4_K,   BP_DTYPE_Q5_K,    BP_DTYPE_Q6_K,  BP_DTYPE_Q8_K,    BP_DTYPE_IQ4_NL,
          BP_DTYPE_IQ4_XS, BP_DTYPE_IQ3_XXS, BP_DTYPE_IQ3_S, BP_DTYPE_IQ2_XXS, BP_DTYPE_IQ2_XS,
          BP_DTYPE_IQ2_S,  BP_DTYPE_IQ1_S,   BP_DTYPE_IQ1_M, BP_DTYPE_MXFP4,   BP_DTYPE_NVFP4,
          BP_DTYPE_TQ1_0,  BP_DTYPE_TQ2_0,   BP_DTYPE_Q1_0,  BP_DTYPE_Q2_0}) {
      if (!type.empty() && type != dtype_name(dtype)) continue;
      bench.run(dtype);
    }
  }
  return 0;
}

}  // namespace
}  // namespace bp::cpu

int main(int argc, char** argv) {
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  return bp::cpu::run_all(number(1, 0), argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "",
                          number(4, 2048));
}
