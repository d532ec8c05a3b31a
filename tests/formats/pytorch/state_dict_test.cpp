// Files of torch.save: where tensors lie, and files that are something else.

#include "fixture.hpp"

namespace bp::pytorch {
namespace {

using namespace pickle;

const std::vector<float> kValues = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

std::string of_values(const Items& tensors) {
  return archive(whole(dict(tensors, ordered_dict())), {{"0", bytes_of(kValues)}});
}

std::string values(int64_t offset, const std::vector<int64_t>& dims,
                   const std::vector<int64_t>& strides) {
  return tensor(storage("FloatStorage", "0", 12), offset, dims, strides);
}

class Opened {
 public:
  explicit Opened(const std::string& bytes) {
    auto opened = open(folder_.write("m.pt", bytes));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    if (opened.ok()) model_ = *std::move(opened);
  }
  [[nodiscard]] size_t size() const { return model_ == nullptr ? 0 : model_->tensors.size(); }
  [[nodiscard]] const bp_tensor& operator[](size_t i) const { return model_->tensors[i]; }
  [[nodiscard]] std::vector<float> rows(size_t i, uint64_t first, uint64_t n) const {
    const bp_tensor& t = model_->tensors[i];
    std::vector<float> out(n * t.row_stride_bytes / sizeof(float));
    const Status status = model_->read(i, first, n, out.data());
    EXPECT_TRUE(status.ok()) << status.message();
    return out;
  }
  ModelFile& model() { return *model_; }

 private:
  const Folder folder_;
  std::unique_ptr<ModelFile> model_;
};

TEST(StateDict, TensorsLieInTheFile) {
  const std::string bytes = of_values({{"w", values(0, {3, 4}, {4, 1})},
                                       {"tied", values(0, {3, 4}, {4, 1})},
                                       {"rows", values(4, {2, 4}, {4, 1})},
                                       {"step", number(7)}});
  const Opened opened(bytes);
  ASSERT_EQ(opened.size(), 3u);  // by name
  const uint64_t data = bytes.find(bytes_of(kValues));
  EXPECT_EQ(view(opened[0].name), "rows");
  EXPECT_EQ(opened[0].offset, data + 16);
  EXPECT_EQ(opened[0].n_bytes, 32u);
  EXPECT_EQ(opened[0].row_stride_bytes, 16u);
  for (const size_t i : {1u, 2u}) {
    EXPECT_EQ(opened[i].offset, data);
    EXPECT_EQ(opened[i].dims[0], 3u);
    EXPECT_EQ(opened[i].dtype, BP_DTYPE_F32);
  }
  EXPECT_EQ(opened.rows(1, 2, 1), (std::vector<float>{8, 9, 10, 11}));
}

TEST(StateDict, OtherLayoutsAreCopied) {
  Opened opened(of_values({{"a_transposed", values(0, {4, 3}, {1, 4})},
                           {"b_column", values(2, {3, 1}, {4, 1})},
                           {"c_cut", values(1, {3, 2}, {4, 1})},
                           {"d_swapped", values(0, {2, 3, 2}, {2, 4, 1})},
                           {"e_repeated", values(3, {2, 2}, {0, 1})}}));
  ASSERT_EQ(opened.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(opened[i].offset, BP_NO_OFFSET) << i;
  EXPECT_EQ(opened.rows(0, 0, 4), (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(opened.rows(0, 2, 1), (std::vector<float>{2, 6, 10}));
  EXPECT_EQ(opened.rows(1, 0, 3), (std::vector<float>{2, 6, 10}));
  EXPECT_EQ(opened.rows(2, 1, 2), (std::vector<float>{5, 6, 9, 10}));
  EXPECT_EQ(opened.rows(3, 0, 6), (std::vector<float>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}));
  EXPECT_EQ(opened.rows(3, 4, 2), (std::vector<float>{6, 7, 10, 11}));
  EXPECT_EQ(opened.rows(4, 0, 2), (std::vector<float>{3, 4, 3, 4}));
  float row[4];
  EXPECT_FALSE(opened.model().read(0, 3, 2, row).ok());
  EXPECT_FALSE(opened.model().read(0, UINT64_MAX, 2, row).ok());
  EXPECT_FALSE(opened.model().read(5, 0, 1, row).ok());
}

TEST(StateDict, EveryTypeIsKnownByItsStorage) {
  const std::pair<const char*, bp_dtype> types[] = {
      {"HalfStorage", BP_DTYPE_F16},   {"BFloat16Storage", BP_DTYPE_BF16},
      {"DoubleStorage", BP_DTYPE_F64}, {"LongStorage", BP_DTYPE_I64},
      {"CharStorage", BP_DTYPE_I8},    {"BoolStorage", BP_DTYPE_U8}};
  for (const auto& [name, dtype] : types) {
    const uint64_t element = dtype == BP_DTYPE_F64 || dtype == BP_DTYPE_I64    ? 8
                             : dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16 ? 2
                                                                               : 1;
    const std::string entry = tensor(storage(name, "0", 3), 0, {3}, {1});
    const auto found =
        read_bytes(archive(whole(dict({{"t", entry}})), {{"0", std::string(3 * element, 'x')}}));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->tensors.at(0).dtype, dtype) << name;
  }
  const std::string f8 = call(global("torch._utils", "_rebuild_tensor_v3"),
                              {tuple({text("storage"), global("torch.storage", "UntypedStorage"),
                                      text("0"), text("cpu"), number(4)}) +
                                   "Q",
                               number(1), numbers({3}), numbers({1}), "\x89", ordered_dict(),
                               global("torch", "float8_e4m3fn")});
  const auto found = read_bytes(archive(whole(dict({{"t", f8}})), {{"0", "1234"}}));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->tensors.at(0).dtype, BP_DTYPE_F8_E4M3);
}

TEST(StateDict, ParametersScalarsAndEmptyTensorsAreTensors) {
  const std::string parameter = call(global("torch._utils", "_rebuild_parameter"),
                                     {values(0, {12}, {1}), "\x88", ordered_dict()});
  const Opened opened(
      of_values({{"a", parameter}, {"b", values(11, {}, {})}, {"c", values(12, {0, 4}, {4, 1})}}));
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_EQ(opened[1].n_dims, 1u);
  EXPECT_EQ(opened[1].dims[0], 1u);
}

TEST(StateDict, MayLieInADictOfATrainer) {
  const std::string inner = dict({{"w", values(0, {12}, {1})}});
  for (const char* name : {"model", "state_dict", "model_state_dict"}) {
    const auto found = read_bytes(of_values({{"epoch", number(2)}, {name, inner}}));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->tensors.size(), 1u);
  }
  const Status status = read_bytes(of_values({{"optimizer", inner}})).status();
  expect_refused(status, "holds no dict of tensors");
}

TEST(StateDict, TheMetadataOfModulesIsPassedOver) {
  const std::string body = dict({{"w", values(0, {12}, {1})}}, ordered_dict()) +
                           dict({{"_metadata", ordered_dict()}}) + "b";
  EXPECT_TRUE(read_bytes(archive(whole(body), {{"0", bytes_of(kValues)}})).ok());
}

TEST(StateDict, OtherFilesAreRefused) {
  const std::string good = whole(dict({{"w", values(0, {12}, {1})}}));
  const ZipItem data = {"0", bytes_of(kValues)};
  expect_refused(read_bytes(archive(good, {data}, "big")).status(), "byte order \"big\"",
                 Code::kUnsupported);
  expect_refused(read_bytes("\x80\x02\x8a\nl\xfc\x9c"
                            "F\xf9 j\xa8P\x19.")
                     .status(),
                 "convert it to safetensors", Code::kUnsupported);
  expect_refused(read_bytes("version https://git-lfs.github.com/spec/v1\n").status(),
                 "git lfs pull");
  expect_refused(read_bytes("GGUF").status(), "no zip archive");
  expect_refused(read_bytes("").status(), "no zip archive");
  expect_refused(read_bytes(zip({{"a.npy", "x"}}).bytes).status(), "without a data.pkl");
  expect_refused(read_bytes(zip({{"a/b/data.pkl", "x"}}).bytes).status(), "without a data.pkl");
  expect_refused(read_bytes(zip({{"a/data.pkl", "x"}, {"b/data.pkl", "x"}}).bytes).status(),
                 "several data.pkl");
  expect_refused(read_bytes(zip({{"a/data.pkl", good}, {"a/constants.pkl", "x"}}).bytes).status(),
                 "TorchScript", Code::kUnsupported);
}

TEST(StateDict, StoragesAreInTheArchive) {
  const std::string good = whole(dict({{"w", values(0, {12}, {1})}}));
  expect_refused(read_bytes(archive(good, {})).status(), "is not in the archive");
  expect_refused(read_bytes(archive(good, {{"0", "1234"}})).status(), "the archive holds 4");
  expect_refused(read_bytes(archive(good, {{"0", bytes_of(kValues) + "x"}})).status(),
                 "takes 48 bytes, the archive holds 49");
}

TEST(StateDict, NamesStandOnce) {
  const std::string w = values(0, {12}, {1});
  expect_refused(read_bytes(of_values({{"w", w}, {"w", w}})).status(), "stands twice");
  expect_refused(read_bytes(of_values({{"", w}})).status(), "a tensor name of 0 bytes");
  expect_refused(read_bytes(of_values({{std::string(5000, 'x'), w}})).status(), "name of 5000");
}

TEST(StateDict, FourDimensionsAreTheMost) {
  const Folder folder;
  const std::string path =
      folder.write("m.pt", of_values({{"w", values(0, {1, 1, 1, 1, 12}, {12, 12, 12, 12, 1})}}));
  expect_refused(open(path).status(), "5 dimensions", Code::kUnsupported);
}

}  // namespace
}  // namespace bp::pytorch
