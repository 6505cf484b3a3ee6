#pragma once

// The tensors of an exercise as its author sees them (exercise.hpp). One definition of the views
// serves two kinds of access: plain, a load or a store, which a compiler can vectorise; and
// metered, which tells a Meter of each and refuses an index that does not exist.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace opbook {

class Meter;

/// A float32 tensor in memory that somebody else owns: [rows, cols], or [cols] where rank is 1.
struct FloatTensor {
  std::string name;
  float* data = nullptr;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  int rank = 2;
};

class PlainAccess {
 public:
  explicit PlainAccess(const FloatTensor&) {}
  void require_index(std::int64_t, std::int64_t) const {}
  float read(const float* from) const { return *from; }
  float read_back(const float* from) const { return *from; }
  void write(float* to, float value) const { *to = value; }
};

/// Outlives neither its meter nor its tensor. Throws CheckFailed, with the index that was used and
/// those that exist.
class MeteredAccess {
 public:
  MeteredAccess(Meter& meter, const FloatTensor& tensor) : meter_(&meter), tensor_(&tensor) {}
  void require_index(std::int64_t i, std::int64_t j) const;
  float read(const float* from) const;
  /// The same of an output, which must have been written: what holds its poison is refused.
  float read_back(const float* from) const;
  void write(float* to, float value) const;

 private:
  Meter* meter_;
  const FloatTensor* tensor_;
};

/// An element of an output. Converts to the float that it holds.
template <class Access>
class Element {
 public:
  Element(float* at, Access access) : at_(at), access_(access) {}
  Element(const Element&) = default;

  operator float() const { return access_.read_back(at_); }
  Element& operator=(float value) {
    access_.write(at_, value);
    return *this;
  }
  Element& operator=(const Element& other) { return *this = static_cast<float>(other); }
  Element& operator+=(float value) { return *this = *this + value; }
  Element& operator-=(float value) { return *this = *this - value; }
  Element& operator*=(float value) { return *this = *this * value; }
  Element& operator/=(float value) { return *this = *this / value; }

 private:
  float* at_;
  [[no_unique_address]] Access access_;
};

template <class Access>
class InputMatrix {
 public:
  InputMatrix(const FloatTensor& tensor, Access access)
      : data_(tensor.data), rows_(tensor.rows), cols_(tensor.cols), access_(access) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  float operator()(std::int64_t i, std::int64_t j) const {
    access_.require_index(i, j);
    return access_.read(data_ + i * cols_ + j);
  }

 private:
  const float* data_;
  std::int64_t rows_, cols_;
  [[no_unique_address]] Access access_;
};

template <class Access>
class InputVector {
 public:
  InputVector(const FloatTensor& tensor, Access access)
      : data_(tensor.data), size_(tensor.cols), access_(access) {}
  std::int64_t size() const { return size_; }
  float operator()(std::int64_t j) const {
    access_.require_index(0, j);
    return access_.read(data_ + j);
  }

 private:
  const float* data_;
  std::int64_t size_;
  [[no_unique_address]] Access access_;
};

template <class Access>
class OutputMatrix {
 public:
  OutputMatrix(const FloatTensor& tensor, Access access)
      : data_(tensor.data), rows_(tensor.rows), cols_(tensor.cols), access_(access) {}
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  Element<Access> operator()(std::int64_t i, std::int64_t j) const {
    access_.require_index(i, j);
    return {data_ + i * cols_ + j, access_};
  }

 private:
  float* data_;
  std::int64_t rows_, cols_;
  [[no_unique_address]] Access access_;
};

/// All that an exercise's function is called with.
struct Operands {
  std::vector<FloatTensor> tensors;
  std::map<std::string, float, std::less<>> scalars;

  /// Both throw ArgumentError for a name that is not there.
  const FloatTensor& tensor(std::string_view name) const;
  float scalar(std::string_view name) const;
};

/// Views of operands, by name; `access(tensor)` makes the access to one of them.
template <class MakeAccess>
class Views {
 public:
  Views(const Operands& operands, MakeAccess access) : operands_(operands), access_(access) {}
  auto input_matrix(std::string_view name) const {
    return InputMatrix(operands_.tensor(name), access_(operands_.tensor(name)));
  }
  auto input_vector(std::string_view name) const {
    return InputVector(operands_.tensor(name), access_(operands_.tensor(name)));
  }
  auto output_matrix(std::string_view name) const {
    return OutputMatrix(operands_.tensor(name), access_(operands_.tensor(name)));
  }
  float scalar(std::string_view name) const { return operands_.scalar(name); }

 private:
  const Operands& operands_;
  MakeAccess access_;
};

/// Somebody's solution of an exercise, compiled for both kinds of access.
struct Submission {
  std::function<void(const Operands&)> plain;
  std::function<void(const Operands&, Meter&)> metered;
};

/// From `call`, which is given Views and calls the solution with what it takes of them.
template <class Call>
Submission submission_of(Call call) {
  return {[=](const Operands& operands) {
            call(Views(operands, [](const FloatTensor& tensor) { return PlainAccess(tensor); }));
          },
          [=](const Operands& operands, Meter& meter) {
            const auto access = [&](const FloatTensor& tensor) {
              return MeteredAccess(meter, tensor);
            };
            call(Views(operands, access));
          }};
}

}  // namespace opbook
