// bench_attention [ISA [HEAD_DIM [KV_HEADS [TYPE]]]]: nanoseconds that one core takes for a tile of
// 64 positions, of which scores, softmax and values, for each type of the cache and some numbers of
// query rows; in cache (four tiles again and again) and from memory, there also what all cores read
// together. Give ratios within one run: the absolute figures move with the machine's neighbours.

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"

namespace bp::cpu {
namespace {

constexpr uint32_t kTilesInCache = 4;
constexpr size_t kMemoryBytes = size_t{256} << 20;
constexpr double kSeconds = 0.15;

struct Named {
  const char* name;
  KvType type;
  bool is_packed = false;  // full tiles, where the kernels do that
};
constexpr Named kTypes[] = {{"f32", KvType::kF32},   {"f16", KvType::kF16},
                            {"bf16", KvType::kBF16}, {"bf16 in 12 bits", KvType::kBF16, true},
                            {"q8_0", KvType::kQ8_0}, {"q4_0", KvType::kQ4_0}};

using Clock = std::chrono::steady_clock;

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

class Bench {
 public:
  // A cache of n_blocks blocks.
  Bench(const Kernels& kernels, const Named& type, const bp_kv_slot& slot, uint32_t n_blocks)
      : kernels_(kernels),
        type_(type),
        slot_(slot),
        n_tiles_(n_blocks * slot.n_kv_heads),
        cache_({&slot_, 1}, 1, kTilePositions, type.type, type.type,
               type.is_packed ? &kernels : nullptr),
        blocks_(n_blocks) {
    std::iota(blocks_.begin(), blocks_.end(), 1);
    const std::array<uint32_t, 1> n_all = {n_blocks + 1};
    if (!cache_.allocate(n_all).ok()) std::abort();
    const uint32_t head_dim = slot.k_head_dim;
    std::vector<float> x(head_dim);
    for (uint32_t p = 0; p < n_blocks * kTilePositions; ++p) {
      for (uint32_t d = 0; d < head_dim; ++d) {
        x[d] = static_cast<float>((p * 7 + d * 13) % 31) - 15.5f;
      }
      for (uint32_t head = 0; head < slot.n_kv_heads; ++head) {
        cache_.store(kernels, 0, head, blocks_[p / kTilePositions], p % kTilePositions, x.data(),
                     x.data());
      }
    }
    if (type.is_packed) pack();
  }

  struct Measured {
    std::array<double, 3> parts;  // ns a tile, of the fastest pass
    double all;
    double mean;
  };

  // kParts: whether the parts are timed too, which takes time itself.
  template <bool kParts>
  Measured measure(uint32_t n_rows) {
    const uint32_t head_dim = slot_.k_head_dim;
    auto memory = AlignedBuffer::allocate(
        size_t{n_rows} * (2 * head_dim + 16 + kTilePositions) * sizeof(float), "rows");
    if (!memory.ok()) std::abort();
    auto* queries = reinterpret_cast<float*>((*memory).data());
    float* out = queries + size_t{n_rows} * head_dim;
    scores_ = out + n_rows * row_stride();
    const auto pack = kernels_.pack_query[static_cast<int>(type_.type)];
    for (uint32_t i = 0; i < n_rows * head_dim; ++i) queries[i] = static_cast<float>(i % 17) / 64;
    for (uint32_t r = 0; pack != nullptr && r < n_rows; ++r) pack(queries + r * head_dim, head_dim);
    std::fill_n(out, n_rows * row_stride(), 0.0f);
    Measured measured{{1e9, 1e9, 1e9}, 1e9, 0};
    uint32_t n_passes = 0;
    const auto start = Clock::now();
    do {
      const auto spent = pass<kParts>(queries, out, n_rows);
      for (size_t i = 0; i < 3; ++i) {
        measured.parts[i] = std::min(measured.parts[i], spent[i] / n_tiles_);
      }
      measured.all = std::min(measured.all, (spent[0] + spent[1] + spent[2]) / n_tiles_);
      ++n_passes;
    } while (ns_since(start) < kSeconds * 1e9);
    measured.mean = ns_since(start) / n_passes / n_tiles_;
    return measured;
  }

  void run(uint32_t n_rows) {
    const Measured ns = measure<true>(n_rows);
    const uint32_t head_dim = slot_.k_head_dim;
    std::printf("%-12s %-15s %4u x %3u %7.0f %7.0f %7.0f %8.0f ns %7.3f TFLOPS %6.1f GB/s\n",
                kernels_.name, type_.name, n_rows, head_dim, ns.parts[0], ns.parts[1], ns.parts[2],
                ns.all, 4.0 * n_rows * kTilePositions * head_dim / ns.all * 1e-3,
                tile_bytes() / ns.all);
  }

  [[nodiscard]] double tile_bytes() const {
    const uint32_t n_dims = slot_.k_head_dim;
    if (type_.is_packed && cache_.packs(0)) {
      return static_cast<double>(PackedTile::packed_bytes(n_dims));
    }
    return static_cast<double>(cache_.block_bytes(0)) / slot_.n_kv_heads;
  }

 private:
  void pack() {
    if (!cache_.packs(0)) return;
    auto scratch = AlignedBuffer::allocate(PackedTile::whole_bytes(slot_.k_head_dim), "a tile");
    if (!scratch.ok()) std::abort();
    for (const int32_t block : blocks_) {
      for (uint32_t h = 0; h < slot_.n_kv_heads; ++h) cache_.pack(0, h, block, (*scratch).data());
    }
  }

  // Columns of values, then sums of probabilities.
  [[nodiscard]] size_t row_stride() const { return slot_.v_head_dim + 16; }

  // As an attention item does.
  void unpack(KvTile& tile) {
    const uint32_t n_dims = slot_.k_head_dim;
    if (unpacked_.size() == 0) {
      auto made = AlignedBuffer::allocate(PackedTile::whole_bytes(n_dims), "a tile");
      if (!made.ok()) std::abort();
      unpacked_ = std::move(*made);
    }
    auto* const to = reinterpret_cast<uint16_t*>(unpacked_.data());
    kernels_.unpack_tile(tile, to);
    tile.packed = {};
    tile.value_stride = n_dims;
    for (uint32_t g = 0; g < kTileGroups; ++g) {
      tile.keys[g] = to + size_t{g} * 16 * n_dims;
      tile.values[g] = to + size_t{kTilePositions + g / 2 * kValuePairPositions} * n_dims;
    }
    tile.ahead = tile.second_ahead = 0;
  }

  // Tiles go through all three parts one after another, the next one asked for before, as in a
  // step.
  template <bool kParts>
  std::array<double, 3> pass(const float* queries, float* out, uint32_t n_rows) {
    std::array<double, 3> spent = {};
    const auto now = [] { return kParts ? Clock::now() : Clock::time_point(); };
    const int i = static_cast<int>(type_.type);
    const uint32_t head_dim = slot_.k_head_dim;
    std::vector<float> maximum(n_rows, 0), factors(kMaxQueryRows);
    const auto n_blocks = static_cast<uint32_t>(blocks_.size());
    const auto place = [&](uint32_t t) {
      return KvCache::Place{blocks_.data(), t / n_blocks, t % n_blocks * kTilePositions};
    };
    for (uint32_t t = 0; t < n_tiles_; ++t) {  // head after head
      KvTile tile = cache_.tile(0, place(t), 0, n_blocks * kTilePositions);
      if (t + 1 < n_tiles_) {
        cache_.look_ahead(0, place(t), place(t + 1), tile);
        tile.wanted_end = kTileGroups;
      }
      if (tile.packed.first != nullptr && n_rows > kernels_.packed_rows) {
        if (t + 1 < n_tiles_) cache_.prefetch(0, place(t + 1));
        unpack(tile);
      }
      for (uint32_t row = 0; row < n_rows; row += kMaxQueryRows) {
        const uint32_t n = std::min(kMaxQueryRows, n_rows - row);
        const auto a = now();
        kernels_.score_tile[i](tile, queries + size_t{row} * head_dim, head_dim, n, head_dim,
                               scores_);
        const auto b = now();
        kernels_.softmax_tile[i](
            scores_, n, 0, kTilePositions, 0.01f, 0,
            {&maximum[row], out + row * row_stride() + head_dim, row_stride(), factors.data()});
        const auto c = now();
        kernels_.accumulate_tile[i](tile, scores_, n, 0, kTilePositions, out + row * row_stride(),
                                    row_stride());
        const auto d = now();
        spent[0] += std::chrono::duration<double, std::nano>(b - a).count();
        spent[1] += std::chrono::duration<double, std::nano>(c - b).count();
        spent[2] += std::chrono::duration<double, std::nano>(d - c).count();
      }
    }
    return spent;
  }

  const Kernels& kernels_;
  Named type_;
  bp_kv_slot slot_;
  uint32_t n_tiles_;
  KvCache cache_;
  std::vector<int32_t> blocks_;
  float* scores_ = nullptr;
  AlignedBuffer unpacked_;
};

// Every core reads a cache of its own.
void run_together(const Kernels& kernels, const Named& type, const bp_kv_slot& slot,
                  uint32_t n_blocks, uint32_t n_rows, uint32_t n_cores) {
  std::vector<double> rates(n_cores);
  std::barrier all_ready(n_cores);
  std::vector<std::jthread> threads;
  for (double& rate : rates) {
    threads.emplace_back([&] {
      Bench bench(kernels, type, slot, n_blocks);
      all_ready.arrive_and_wait();
      rate = bench.tile_bytes() / bench.measure<false>(n_rows).mean;
    });
  }
  threads.clear();
  std::printf("%-12s %-15s %4u x %3u from memory, %u core(s): %.1f GB/s\n", kernels.name, type.name,
              n_rows, slot.k_head_dim, n_cores, std::reduce(rates.begin(), rates.end()));
}

void run_all(std::string_view only, uint32_t head_dim, uint32_t n_kv_heads,
             std::string_view only_type) {
  const bp_kv_slot one{0, 1, head_dim, head_dim};
  const bp_kv_slot slot{0, n_kv_heads, head_dim, head_dim};
  std::printf("                 rows dims  scores softmax  values\n");
  for (const Isa isa : available_isas()) {
    if (!only.empty() && only != isa_name(isa)) continue;
    for (const Named& type : kTypes) {
      if (!only_type.empty() && only_type != type.name) continue;
      Bench cached(kernels_of(isa), type, one, kTilesInCache);
      for (const uint32_t n_rows : {1u, 2u, 4u, 8u, 16u, 64u, 256u}) cached.run(n_rows);
      const auto n_blocks =
          static_cast<uint32_t>(kMemoryBytes / kTilePositions / head_dim / 4 / n_kv_heads);
      Bench(kernels_of(isa), type, slot, n_blocks).run(2);
      for (const uint32_t n_rows : {2u, 4u, 8u, 16u}) {
        for (const uint32_t n_cores : {1u, std::thread::hardware_concurrency()}) {
          run_together(kernels_of(isa), type, slot, n_blocks, n_rows, n_cores);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu

int main(int argc, char** argv) {
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  bp::cpu::run_all(argc > 1 ? argv[1] : "", number(2, 128), number(3, 8), argc > 4 ? argv[4] : "");
  return 0;
}
