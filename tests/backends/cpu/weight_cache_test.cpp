// The file of packed weights: what comes back, and what is refused.

#include "backends/cpu/weights/weight_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "backends/cpu/weights/pack_strips.hpp"
#include "backends/cpu/weights/weight_cache_format.hpp"
#include "backends/cpu/weights/weight_cache_writer.hpp"
#include "backends/cpu/weights/weight_preparation.hpp"
#include "backplane/dtype.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::cpu {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;
using Weights = std::vector<std::shared_ptr<PreparedWeight>>;

constexpr char kKey[] = "0123456789abcdef";

class WeightCacheTest : public testing::Test {
 protected:
  WeightCacheTest() {
    add(BP_DTYPE_Q4_K, 40, 512);
    add(BP_DTYPE_Q8_0, 16, 64);
    add(BP_DTYPE_Q6_K, 3000, 768);  // more than the writer holds at once, and no whole strips
    add(BP_DTYPE_IQ4_NL, 17, 96);
    add(BP_DTYPE_BF16, 20, 96);
  }

  void add(bp_dtype dtype, uint32_t n_rows, uint32_t n_columns) {
    WeightRows rows;
    rows.dtype = dtype;
    rows.n_rows = n_rows;
    rows.n_columns = n_columns;
    rows.row_stride_bytes = row_bytes(dtype, n_columns);
    rows.file = 0;
    rows.file_offset = file_offset_;
    Bytes bytes(rows.source_bytes());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 % 61);
    file_offset_ += bytes.size();
    sources_.push_back(std::move(bytes));
    rows.data = sources_.back().data();
    weights_.push_back(std::make_shared<PreparedWeight>(rows, Prepare::kCache, Bf16Layout::kSplit));
  }

  Status write(const std::string& key = kKey) {
    BP_ASSIGN(const auto writer, WeightCacheWriter::create(folder(), size_t{1} << 22));
    return writer->write(weights_, key, *team_, Progress(nullptr));
  }
  Code open_code() { return WeightCache::open(folder(), kKey).status().code(); }

  [[nodiscard]] std::string folder() const { return (temporary_.path() / "model.cache").string(); }
  [[nodiscard]] fs::path file() const { return fs::path(folder()) / kCacheFileName; }

  Bytes content() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const Bytes& bytes) const {
    std::ofstream out(file(), std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  }
  // A file whose header and entries were changed by someone who knows the checksum.
  Code open_with(const std::function<void(CacheHeader&, CacheEntry*)>& change) {
    Bytes bytes = original_;
    auto* header = reinterpret_cast<CacheHeader*>(bytes.data());
    auto* entries = reinterpret_cast<CacheEntry*>(bytes.data() + sizeof(CacheHeader));
    const uint32_t n_entries = header->n_entries;
    change(*header, entries);
    if (header->n_entries == n_entries) header->checksum = cache_checksum(*header, entries);
    replace(bytes);
    return open_code();
  }
  void keep_original() {
    ASSERT_TRUE(write().ok());
    original_ = content();
  }

  conformance::TemporaryFolder temporary_{"backplane-cache"};
  std::shared_ptr<Team> team_ = Team::create(Host(), 2);
  std::vector<Bytes> sources_;
  Weights weights_;
  uint64_t file_offset_ = 4096;
  Bytes original_;
};

TEST_F(WeightCacheTest, GivesBackTheStripsThatWereWritten) {
  const Status written = write();
  ASSERT_TRUE(written.ok()) << written.message();
  const auto cache = WeightCache::open(folder(), kKey);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  EXPECT_TRUE((*cache)->has_all(weights_));
  for (const auto& weight : weights_) {
    Bytes packed(weight->n_strips() * weight->strip_bytes());
    weight->pack_into(0, weight->n_strips(), packed.data());
    const auto strips = (*cache)->find(*weight);
    ASSERT_NE(strips, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(strips.get()) % 64, 0u);
    EXPECT_TRUE(std::equal(packed.begin(), packed.end(), strips.get()));
  }
}

// A strip may be more than the writer holds at once, and end in the middle of a page.
TEST_F(WeightCacheTest, HoldsStripsOfVeryManyColumns) {
  add(BP_DTYPE_Q8_0, 48, 1'080'000);
  add(BP_DTYPE_Q8_0, 16, 64);
  ASSERT_TRUE(write().ok());
  const auto cache = WeightCache::open(folder(), kKey);
  ASSERT_TRUE(cache.ok()) << cache.status().message();
  for (const auto& weight : weights_) {
    Bytes packed(weight->n_strips() * weight->strip_bytes());
    weight->pack_into(0, weight->n_strips(), packed.data());
    const auto strips = (*cache)->find(*weight);
    ASSERT_NE(strips, nullptr);
    EXPECT_TRUE(std::equal(packed.begin(), packed.end(), strips.get()));
  }
}

TEST_F(WeightCacheTest, HoldsBf16WhereKernelsTakeIt) {
  const WeightRows rows = weights_.back()->rows();
  EXPECT_EQ(weights_.back()->packed_bytes(), 2 * Bf16Split::strip_bytes(96));
  EXPECT_EQ(PreparedWeight(rows, Prepare::kCache, Bf16Layout::kRows).packed_bytes(), 0u);
  EXPECT_EQ(PreparedWeight(rows, Prepare::kNone, Bf16Layout::kSplit).packed_bytes(), 0u);
  WeightRows odd = rows;
  odd.n_columns = 80;
  EXPECT_EQ(PreparedWeight(odd, Prepare::kCache, Bf16Layout::kSplit).packed_bytes(), 0u);
}

// A model of bf16 that is no file's must not double in memory.
TEST_F(WeightCacheTest, LeavesBf16WhereItIsWithoutAFile) {
  WeightRows rows = weights_.back()->rows();
  rows.file = BP_NONE;
  for (const Prepare prepare : {Prepare::kRepack, Prepare::kCache}) {
    PreparedWeight weight(rows, prepare, Bf16Layout::kSplit);
    WeightArena arena;
    EXPECT_EQ(weight.bytes_to_place(), 0u);
    ASSERT_TRUE(weight.place(*team_, arena).ok());
    EXPECT_EQ(weight.owned_bytes(), 0u);
    EXPECT_FALSE(weight.has_strips());
    EXPECT_EQ(weight.bytes().data(), weight.rows().data);
    EXPECT_TRUE(weight.takes_bf16());
  }
  EXPECT_GT(weights_.front()->bytes_to_place(), 0u);
}

TEST_F(WeightCacheTest, RepacksBf16AsTheFileHasIt) {
  Bytes packed(weights_.back()->packed_bytes());
  weights_.back()->pack_into(0, weights_.back()->n_strips(), packed.data());
  PreparedWeight weight(weights_.back()->rows(), Prepare::kRepack, Bf16Layout::kSplit);
  EXPECT_EQ(weight.bytes_to_place(), packed.size());
  WeightArena arena;
  ASSERT_TRUE(weight.place(*team_, arena).ok());
  EXPECT_EQ(weight.bytes_to_place(), 0u);
  EXPECT_EQ(weight.owned_bytes(), packed.size());
  EXPECT_TRUE(std::ranges::equal(weight.bytes(), packed));
}

TEST_F(WeightCacheTest, StripsKeepTheFileMapped) {
  ASSERT_TRUE(write().ok());
  auto cache = WeightCache::open(folder(), kKey);
  ASSERT_TRUE(cache.ok());
  const auto strips = (*cache)->find(*weights_[0]);
  const uint8_t first = strips.get()[0];
  cache->reset();
  fs::remove(file());
  EXPECT_EQ(strips.get()[0], first);
}

TEST_F(WeightCacheTest, FindsOnlyTheSameRows) {
  ASSERT_TRUE(write().ok());
  const auto cache = WeightCache::open(folder(), kKey);
  ASSERT_TRUE(cache.ok());
  WeightRows moved = weights_[0]->rows();
  moved.file_offset += 1;
  WeightRows narrower = weights_[0]->rows();
  narrower.n_rows -= 16;
  WeightRows unnamed = weights_[0]->rows();
  unnamed.file = BP_NONE;
  for (const WeightRows& rows : {moved, narrower}) {
    const auto other = std::make_shared<PreparedWeight>(rows, Prepare::kCache, Bf16Layout::kSplit);
    EXPECT_EQ((*cache)->find(*other), nullptr);
    EXPECT_FALSE((*cache)->has_all(Weights{other}));
  }
  // Written under another instruction set.
  const auto in_tiles = std::make_shared<PreparedWeight>(weights_.back()->rows(), Prepare::kCache,
                                                         Bf16Layout::kTiles);
  EXPECT_EQ((*cache)->find(*in_tiles), nullptr);
  EXPECT_FALSE(is_cacheable(PreparedWeight(unnamed, Prepare::kCache, Bf16Layout::kSplit)));
}

TEST_F(WeightCacheTest, LeavesOnlyTheFile) {
  ASSERT_TRUE(write().ok());
  ASSERT_TRUE(write().ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
  { ASSERT_TRUE(WeightCacheWriter::create(folder(), 1 << 20).ok()); }  // not finished
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
}

TEST_F(WeightCacheTest, RefusesAnotherModelsFile) {
  EXPECT_EQ(open_code(), Code::kIoError);
  ASSERT_TRUE(write("another").ok());
  EXPECT_EQ(open_code(), Code::kInvalidArgument);
  ASSERT_TRUE(write().ok());  // takes its place
  EXPECT_EQ(open_code(), Code::kOk);
}

TEST_F(WeightCacheTest, RefusesATruncatedFile) {
  keep_original();
  const size_t sizes[] = {0,
                          1,
                          sizeof(CacheHeader) - 1,
                          sizeof(CacheHeader),
                          sizeof(CacheHeader) + 10,
                          kHugePage,
                          original_.size() - 1};
  for (const size_t size : sizes) {
    replace(Bytes(original_.begin(), original_.begin() + static_cast<long>(size)));
    EXPECT_EQ(open_code(), Code::kInvalidArgument) << size;
  }
}

TEST_F(WeightCacheTest, RefusesEveryChangedByteOfHeaderAndTable) {
  keep_original();
  const size_t n_bytes = sizeof(CacheHeader) + weights_.size() * sizeof(CacheEntry);
  for (size_t i = 0; i < n_bytes; ++i) {
    std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<long>(i)).put(static_cast<char>(original_[i] ^ 0x40)).flush();
    EXPECT_EQ(open_code(), Code::kInvalidArgument) << "byte " << i;
    out.seekp(static_cast<long>(i)).put(static_cast<char>(original_[i])).flush();
  }
  EXPECT_EQ(open_code(), Code::kOk);
}

TEST_F(WeightCacheTest, RefusesHostileNumbers) {
  keep_original();
  const auto refused = Code::kInvalidArgument;
  const uint64_t size = original_.size();
  EXPECT_EQ(open_with([](auto&, auto*) {}), Code::kOk);
  EXPECT_EQ(open_with([](auto& h, auto*) { h.n_entries = UINT32_MAX; }), refused);
  EXPECT_EQ(open_with([](auto& h, auto*) { h.data_offset = UINT64_MAX; }), refused);
  EXPECT_EQ(open_with([](auto& h, auto*) { h.file_bytes += 1; }), refused);
  EXPECT_EQ(open_with([](auto& h, auto*) { h.layout_version += 1; }), refused);
  EXPECT_EQ(open_with([](auto&, auto* e) { e[0].offset = UINT64_MAX - 4095; }), refused);
  EXPECT_EQ(open_with([](auto&, auto* e) { e[0].offset = 4096; }), refused);
  EXPECT_EQ(open_with([](auto&, auto* e) { e[0].offset += 1; }), refused);
  EXPECT_EQ(open_with([&](auto&, auto* e) { e[1].n_bytes = size; }), refused);
  EXPECT_EQ(open_with([](auto&, auto* e) { e[1].n_bytes = UINT64_MAX; }), refused);
}

TEST_F(WeightCacheTest, SaysWhereItCannotWrite) {
  const auto writer = WeightCacheWriter::create("/dev/null/folder", 1 << 20);
  EXPECT_EQ(writer.status().code(), Code::kIoError);
  EXPECT_THAT(writer.status().message(), testing::HasSubstr("/dev/null/folder"));
  EXPECT_EQ(WeightCache::open("/dev/null/folder", kKey).status().code(), Code::kIoError);
}

TEST_F(WeightCacheTest, SeveralMayWriteAtOnce) {
  std::vector<Code> codes(4, Code::kInternal);
  std::vector<std::thread> threads;
  for (Code& code : codes) {
    threads.emplace_back([this, &code] {
      const auto team = Team::create(Host(), 1);
      auto writer = WeightCacheWriter::create(folder(), 1 << 20);
      if (writer.ok()) {
        code = (*writer)->write(weights_, kKey, *team, Progress(nullptr)).code();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(codes, testing::Each(Code::kOk));
  EXPECT_EQ(open_code(), Code::kOk);
}

TEST_F(WeightCacheTest, RemovesWhatKilledProcessesLeft) {
  const auto n_files = [&] {
    return std::distance(fs::directory_iterator(folder()), fs::directory_iterator());
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const auto writer = WeightCacheWriter::create(folder(), 1 << 20);
    ::_exit(writer.ok() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(n_files(), 1);
  // One that still writes keeps its own.
  auto writing = WeightCacheWriter::create(folder(), 1 << 20);
  ASSERT_TRUE(writing.ok());
  EXPECT_EQ(n_files(), 1);
  ASSERT_TRUE(write().ok());
  EXPECT_EQ(n_files(), 2);
  EXPECT_TRUE((*writing)->write(weights_, kKey, *team_, Progress(nullptr)).ok());
  writing->reset();
  EXPECT_EQ(n_files(), 1);
}

TEST_F(WeightCacheTest, WithoutItsFileTheChoiceIsMadeAnew) {
  auto options = make_growable<bp_compile_options>();
  const std::string path = folder();
  options.content_key = kKey;
  options.cache_folder = path.c_str();
  MemoryNeeds needs;
  needs.packed = needs.source = needs.cached = uint64_t{65} << 20;
  const Host host;
  for (const bool fits : {true, false}) {
    WeightPreparation preparation(host, options, std::nullopt, needs);
    ASSERT_EQ(preparation.prepare(), Prepare::kCache);
    fs::remove_all(folder());  // nothing can get its name there
    ASSERT_TRUE(preparation.keep(weights_, *team_).ok());
    EXPECT_EQ(preparation.prepare(), fits ? Prepare::kRepack : Prepare::kNone);
    needs.packed = uint64_t{1} << 60;
  }
}

TEST_F(WeightCacheTest, StopsWhenProgressAsksForIt) {
  auto progress = make_growable<bp_progress>();
  progress.report = [](void*, uint64_t done, uint64_t) { return done >= 2 ? 1 : 0; };
  const auto writer = WeightCacheWriter::create(folder(), 1 << 20);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ((*writer)->write(weights_, kKey, *team_, Progress(&progress)).code(), Code::kCancelled);
  EXPECT_EQ(open_code(), Code::kIoError);
}

}  // namespace
}  // namespace bp::cpu
