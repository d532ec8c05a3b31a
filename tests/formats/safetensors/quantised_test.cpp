// Checkpoints packed as GPTQ, AWQ and compressed-tensors pack them, and what is read of them.

#include "fixture.hpp"

#include <array>
#include <cstring>
#include <random>

#include "backplane/dtype.hpp"
#include "backplane/half.hpp"

namespace bp::safetensors {
namespace {

// A file of tensors one after another.
class FileBuilder {
 public:
  template <class T>
  FileBuilder& add(const std::string& name, const std::string& dtype,
                   const std::vector<uint64_t>& dims, const std::vector<T>& values) {
    const uint64_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    std::string shape;
    for (const uint64_t dim : dims) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    header_ += (header_.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(begin) + "," +
               std::to_string(data_.size()) + "]}";
    return *this;
  }
  [[nodiscard]] std::string bytes() const { return file_bytes(header_ + "}", data_); }

 private:
  std::string header_, data_;
};

constexpr uint64_t kRows = 16;
constexpr uint64_t kColumns = 64;
constexpr uint64_t kGroup = 32;
constexpr uint64_t kGroups = kColumns / kGroup;

// Random quants, with a scale and a zero for each row and group.
struct Source {
  explicit Source(uint32_t bits, bool symmetric) : bits(bits) {
    std::minstd_rand random(bits + symmetric);
    for (uint32_t& q : quants) q = static_cast<uint32_t>(random()) >> 4 & ((1u << bits) - 1);
    for (uint32_t& z : zeros) {
      z = symmetric ? 1u << (bits - 1) : 1 + static_cast<uint32_t>(random()) % 14;
    }
    for (uint16_t& s : scales) {
      s = f32_to_f16(0.01F + static_cast<float>(random() % 1000) * 1e-4F);
    }
  }
  [[nodiscard]] uint32_t quant(uint64_t row, uint64_t column) const {
    return quants[row * kColumns + column];
  }
  [[nodiscard]] float value(uint64_t row, uint64_t column, uint64_t group) const {
    const uint64_t i = row * kGroups + group;
    return f16_to_f32(scales[i]) *
           (static_cast<float>(quant(row, column)) - static_cast<float>(zeros[i]));
  }

  uint32_t bits;
  std::array<uint32_t, kRows * kColumns> quants{};
  std::array<uint32_t, kRows * kGroups> zeros{};  // [row, group]
  std::array<uint16_t, kRows * kGroups> scales{};
};

// Words of 32 bits that hold `at(outer, inner)`, inner ones packed from the lowest bits.
template <class At>
std::vector<uint32_t> pack(uint64_t n_outer, uint64_t n_inner, uint32_t bits, const At& at) {
  const uint64_t per_word = 32 / bits;
  std::vector<uint32_t> words(n_outer * n_inner / per_word);
  for (uint64_t o = 0; o < n_outer; ++o) {
    for (uint64_t i = 0; i < n_inner; ++i) {
      words[(o * n_inner + i) / per_word] |= at(o, i) << (i % per_word * bits);
    }
  }
  return words;
}

template <class T>
std::vector<T> transposed(const std::vector<T>& values, uint64_t rows, uint64_t columns) {
  std::vector<T> out(values.size());
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < columns; ++c) out[c * rows + r] = values[r * columns + c];
  }
  return out;
}

std::vector<uint16_t> scales_by_group(const Source& s) {
  return transposed(std::vector<uint16_t>(s.scales.begin(), s.scales.end()), kRows, kGroups);
}

std::string gptq(const Source& s, const std::vector<int32_t>& group_of_column) {
  const uint64_t per_word = 32 / s.bits;
  const auto by_row = pack(kRows, kColumns, s.bits,
                           [&](uint64_t row, uint64_t column) { return s.quant(row, column); });
  FileBuilder file;
  file.add("l.qweight", "I32", {kColumns / per_word, kRows},
           transposed(by_row, kRows, kColumns / per_word));
  file.add("l.qzeros", "I32", {kGroups, kRows / per_word},
           pack(kGroups, kRows, s.bits,
                [&](uint64_t group, uint64_t row) { return s.zeros[row * kGroups + group] - 1; }));
  file.add("l.scales", "F16", {kGroups, kRows}, scales_by_group(s));
  file.add("l.g_idx", "I32", {group_of_column.size()}, group_of_column);
  return file.add("l.bias", "F16", {kRows}, std::vector<uint16_t>(kRows)).bytes();
}

std::string awq(const Source& s) {
  constexpr std::array<uint64_t, 8> kOrder = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto in_order = [&](uint64_t i) { return i / 8 * 8 + kOrder[i % 8]; };
  FileBuilder file;
  file.add("l.qweight", "I32", {kColumns, kRows / 8},
           pack(kColumns, kRows, 4,
                [&](uint64_t column, uint64_t i) { return s.quant(in_order(i), column); }));
  file.add("l.qzeros", "I32", {kGroups, kRows / 8},
           pack(kGroups, kRows, 4, [&](uint64_t group, uint64_t i) {
             return s.zeros[in_order(i) * kGroups + group];
           }));
  return file.add("l.scales", "F16", {kGroups, kRows}, scales_by_group(s)).bytes();
}

std::string compressed(const Source& s, bool with_zeros,
                       const std::vector<int32_t>& group_of_column = {}) {
  FileBuilder file;
  file.add("l.weight_packed", "I32", {kRows, kColumns * s.bits / 32},
           pack(kRows, kColumns, s.bits,
                [&](uint64_t row, uint64_t column) { return s.quant(row, column); }));
  if (with_zeros) {
    const auto by_group = pack(kGroups, kRows, s.bits, [&](uint64_t group, uint64_t row) {
      return s.zeros[row * kGroups + group];
    });
    file.add("l.weight_zero_point", "I32", {kRows * s.bits / 32, kGroups},
             transposed(by_group, kGroups, kRows * s.bits / 32));
  }
  file.add("l.weight_scale", "F16", {kRows, kGroups},
           std::vector<uint16_t>(s.scales.begin(), s.scales.end()));
  if (!group_of_column.empty()) {
    file.add("l.weight_g_idx", "I32", {group_of_column.size()}, group_of_column);
  }
  return file.add("l.weight_shape", "I64", {2}, std::vector<int64_t>{kRows, kColumns}).bytes();
}

// [row] of a tensor read as `dtype`, decoded.
std::vector<float> decoded_row(ModelFile& file, uint64_t index, uint64_t row) {
  const bp_tensor& t = file.tensors[index];
  std::vector<uint8_t> bytes(t.row_stride_bytes);
  EXPECT_TRUE(file.read(index, row, 1, bytes.data()).ok());
  std::vector<float> values;
  const auto half = [&](size_t at) {
    return static_cast<uint16_t>(bytes[at] | bytes[at + 1] << 8);
  };
  for (uint64_t i = 0; i < t.dims[1]; ++i) {
    const size_t block = i / 32 * dtype_info(t.dtype).block_bytes;
    const size_t in_block = i % 32;
    if (t.dtype == BP_DTYPE_F16) {
      values.push_back(f16_to_f32(half(2 * i)));
    } else if (t.dtype == BP_DTYPE_BF16) {
      values.push_back(bf16_to_f32(half(2 * i)));
    } else if (t.dtype == BP_DTYPE_Q8_0) {
      values.push_back(f16_to_f32(half(block)) * static_cast<int8_t>(bytes[block + 2 + in_block]));
    } else {
      const uint8_t pair = bytes[block + 2 + in_block % 16];
      values.push_back(f16_to_f32(half(block)) * ((in_block < 16 ? pair & 15 : pair >> 4) - 8));
    }
  }
  return values;
}

class Quantised : public testing::Test {
 protected:
  void open_as(const std::string& config, const std::string& bytes) {
    folder_.write("config.json", config);
    folder_.write("model.safetensors", bytes);
    auto model = open(folder_.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    model_ = *std::move(model);
    for (uint64_t i = 0; i < model_->tensors.size(); ++i) {
      if (view(model_->tensors[i].name) == "l.weight") index_ = i;
    }
    ASSERT_EQ(view(model_->tensors[index_].name), "l.weight");
    ASSERT_EQ(model_->tensors[index_].offset, BP_NO_OFFSET);
  }

  // Within the rounding of the type it is read as.
  void expect_values(const Source& s, bp_dtype dtype,
                     const std::vector<int32_t>& group_of_column = {}) {
    const bp_tensor& t = model_->tensors[index_];
    EXPECT_EQ(t.dtype, dtype) << dtype_name(t.dtype);
    ASSERT_EQ(t.dims[0], kRows);
    ASSERT_EQ(t.dims[1], kColumns);
    for (uint64_t row = 0; row < kRows; ++row) {
      const auto values = decoded_row(*model_, index_, row);
      for (uint64_t column = 0; column < kColumns; ++column) {
        const uint64_t group = group_of_column.empty()
                                   ? column / kGroup
                                   : static_cast<uint64_t>(group_of_column[column]);
        const float exact = s.value(row, column, group);
        const float expected = dtype == BP_DTYPE_F16 ? f16_to_f32(f32_to_f16(exact)) : exact;
        ASSERT_EQ(values[column], expected) << "row " << row << " column " << column;
      }
    }
  }

  const Folder folder_;
  std::unique_ptr<ModelFile> model_;
  uint64_t index_ = 0;
};

std::string config_of(const std::string& method, uint32_t bits) {
  return R"({"torch_dtype": "float16", "quantization_config": {"quant_method": ")" + method +
         "\", \"bits\": " + std::to_string(bits) + "}}";
}

std::vector<int32_t> groups_in_order() {
  std::vector<int32_t> groups(kColumns);
  for (uint64_t i = 0; i < kColumns; ++i) groups[i] = static_cast<int32_t>(i / kGroup);
  return groups;
}

TEST_F(Quantised, SymmetricGptqIsABlockTypeExactly) {
  const Source four(4, true);
  open_as(config_of("gptq", 4), gptq(four, groups_in_order()));
  expect_values(four, BP_DTYPE_Q4_0);
  EXPECT_EQ(model_->tensors.size(), 2u) << "the weight and its bias";
  const Source eight(8, true);
  open_as(config_of("gptq", 8), gptq(eight, groups_in_order()));
  expect_values(eight, BP_DTYPE_Q8_0);
}

TEST_F(Quantised, OtherGptqIsRoundedToTheModelsType) {
  const Source source(4, false);
  open_as(config_of("gptq", 4), gptq(source, {}));
  expect_values(source, BP_DTYPE_F16);
  std::vector<int32_t> shuffled = groups_in_order();
  std::swap(shuffled[0], shuffled[40]);
  const Source symmetric(4, true);
  open_as(config_of("gptq", 4), gptq(symmetric, shuffled));
  expect_values(symmetric, BP_DTYPE_F16, shuffled);
}

TEST_F(Quantised, Awq) {
  const Source source(4, false);
  open_as(config_of("awq", 4), awq(source));
  expect_values(source, BP_DTYPE_F16);
}

TEST_F(Quantised, CompressedTensors) {
  for (const uint32_t bits : {4u, 8u}) {
    const Source symmetric(bits, true);
    open_as(config_of("compressed-tensors", 4), compressed(symmetric, false));
    expect_values(symmetric, bits == 4 ? BP_DTYPE_Q4_0 : BP_DTYPE_Q8_0);
    const Source source(bits, false);
    open_as(config_of("compressed-tensors", 4), compressed(source, true));
    expect_values(source, BP_DTYPE_F16);
  }
}

TEST_F(Quantised, CompressedTensorsInAnOrderOfTheirOwn) {
  std::vector<int32_t> shuffled(kColumns);
  for (uint64_t i = 0; i < kColumns; ++i) shuffled[i] = static_cast<int32_t>(i % kGroups);
  const Source symmetric(4, true);
  open_as(config_of("compressed-tensors", 4), compressed(symmetric, false, shuffled));
  expect_values(symmetric, BP_DTYPE_F16, shuffled);
  const Source source(4, false);
  open_as(config_of("compressed-tensors", 4), compressed(source, true, shuffled));
  expect_values(source, BP_DTYPE_F16, shuffled);
  const std::vector<int32_t> unset(kColumns, -1);
  open_as(config_of("compressed-tensors", 4), compressed(symmetric, false, unset));
  expect_values(symmetric, BP_DTYPE_Q4_0);
}

TEST_F(Quantised, BytesWithAScaleForEachRow) {
  std::vector<int8_t> quants(2 * kColumns);
  for (size_t i = 0; i < quants.size(); ++i) quants[i] = static_cast<int8_t>(i * 7);
  FileBuilder file;
  file.add("l.weight", "I8", {2, kColumns}, quants)
      .add("l.weight_scale", "F32", {2, 1}, std::vector<float>{0.5F, 0.25F});
  open_as("{}", file.bytes());
  EXPECT_EQ(model_->tensors[index_].dtype, BP_DTYPE_Q8_0);
  EXPECT_EQ(decoded_row(*model_, index_, 1)[3], 0.25F * quants[kColumns + 3]);
}

TEST_F(Quantised, SmallFloatsWithScalesInBlocks) {
  std::vector<uint8_t> bytes(6 * 8);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 5 % 0x78);
  FileBuilder file;
  file.add("l.weight", "F8_E4M3", {6, 8}, bytes)
      .add("l.weight_scale_inv", "F32", {2, 3}, std::vector<float>{1, 2, 4, 8, 16, 32});
  open_as(R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 3]}})",
          file.bytes());
  EXPECT_EQ(model_->tensors[index_].dtype, BP_DTYPE_BF16);
  // Three groups of columns of 3, 3 and 2; six rows are a block of 4 and one of 2.
  EXPECT_EQ(decoded_row(*model_, index_, 0)[2], f8_e4m3_to_f32(bytes[2]) * 1);
  EXPECT_EQ(decoded_row(*model_, index_, 0)[7], f8_e4m3_to_f32(bytes[7]) * 4);
  EXPECT_EQ(decoded_row(*model_, index_, 3)[0], f8_e4m3_to_f32(bytes[24]) * 1);
  EXPECT_EQ(decoded_row(*model_, index_, 4)[0], f8_e4m3_to_f32(bytes[32]) * 8);
}

TEST_F(Quantised, ShapesThatDisagreeAreRefused) {
  const auto refused = [&](const FileBuilder& file, const std::string& rule) {
    folder_.write("config.json", config_of("gptq", 4));
    expect_refused(folder_.write("model.safetensors", file.bytes()), rule);
  };
  const std::vector<uint32_t> words(64);
  const std::vector<uint16_t> halves(64);
  refused(FileBuilder().add("l.qweight", "I32", {8, 8}, words), "no scales");
  refused(FileBuilder().add("l.qweight", "I32", {64}, words), "no matrix");
  refused(FileBuilder().add("l.qweight", "F32", {8, 8}, words), "has the type f32");
  refused(FileBuilder()
              .add("l.qweight", "I32", {8, 8}, words)
              .add("l.scales", "F16", {7, 9}, std::vector<uint16_t>(63)),
          "do not fit");
  FileBuilder whole;
  whole.add("l.qweight", "I32", {8, 8}, words)
      .add("l.scales", "F16", {2, 8}, std::vector<uint16_t>(16));
  refused(whole, "no qzeros");
  refused(FileBuilder(whole).add("l.qzeros", "I32", {1, 1}, std::vector<uint32_t>(1)),
          "zeros do not fit");
  whole.add("l.qzeros", "I32", {2, 1}, std::vector<uint32_t>(2));
  refused(FileBuilder(whole).add("l.g_idx", "I32", {63}, std::vector<int32_t>(63)),
          "g_idx does not fit");
  refused(FileBuilder(whole).add("l.g_idx", "I32", {64}, std::vector<int32_t>(64, 2)),
          "names group 2 of 2");
  refused(FileBuilder(whole).add("l.weight", "F16", {8, 8}, halves), "in two forms");
  refused(FileBuilder()
              .add("l.weight_packed", "I32", {8, 8}, words)
              .add("l.weight_shape", "I64", {2}, std::vector<int64_t>{9, 64}),
          "weight_shape is missing or disagrees");
}

// Two experts of three rows of 64 columns: pairs of neighbours in a byte become blocks whose bytes
// hold elements half a block apart.
TEST(Mxfp4, IsGgufsBlocks) {
  constexpr uint64_t kExperts = 2, kExpertRows = 3, kBlocks = 2;
  std::vector<uint8_t> pairs(kExperts * kExpertRows * kBlocks * 16), scales(pairs.size() / 16);
  std::minstd_rand random(5);
  for (uint8_t& pair : pairs) pair = static_cast<uint8_t>(random() >> 8);
  for (uint8_t& scale : scales) scale = static_cast<uint8_t>(random() >> 8);
  FileBuilder file;
  file.add("l.up_blocks", "U8", {kExperts, kExpertRows, kBlocks, 16}, pairs);
  file.add("l.up_scales", "U8", {kExperts, kExpertRows, kBlocks}, scales);
  const Folder folder;
  const auto model = open(folder.write("model.safetensors", file.bytes()));
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ((*model)->tensors.size(), 1u);
  const bp_tensor& t = (*model)->tensors[0];
  EXPECT_EQ(view(t.name), "l.up_blocks");
  EXPECT_EQ(t.dtype, BP_DTYPE_MXFP4);
  EXPECT_EQ(std::vector<uint64_t>(t.dims, t.dims + t.n_dims),
            (std::vector<uint64_t>{kExperts, kExpertRows, kBlocks * 32}));
  constexpr uint64_t kFirst = 1, kRowsRead = 4;
  std::vector<uint8_t> blocks(kRowsRead * kBlocks * 17);
  ASSERT_TRUE((*model)->read(0, kFirst, kRowsRead, blocks.data()).ok());
  for (uint64_t i = 0; i < kRowsRead * kBlocks * 32; ++i) {
    const uint64_t block = i / 32, at = i % 32, from = block + kFirst * kBlocks;
    const uint8_t* bytes = blocks.data() + block * 17;
    EXPECT_EQ(bytes[0], scales[from]);
    EXPECT_EQ(bytes[1 + at % 16] >> (at / 16 * 4) & 15,
              pairs[from * 16 + at / 2] >> (at % 2 * 4) & 15);
  }
}

TEST(Mxfp4, ScalesMustFit) {
  const std::vector<uint8_t> pairs(3 * 2 * 16), scales(5);
  FileBuilder file;
  file.add("l.up_blocks", "U8", {1, 3, 2, 16}, pairs).add("l.up_scales", "U8", {1, 5}, scales);
  const Folder folder;
  expect_refused(folder.write("model.safetensors", file.bytes()), "do not fit its scales");
}

}  // namespace
}  // namespace bp::safetensors
