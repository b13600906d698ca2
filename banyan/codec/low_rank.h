// Arithmetic of low-rank approximations of gradients: a matrix M of r x c values as P Q^T, P of r x k, Q of c x k.
//
// All matrices are row-major, without gaps. For small k (rank), where reading M is what takes the time: each function
// reads or writes M once in memory, and once in a cache for each four columns of P. Products are sums of float32 in a
// fixed order, each rounded; `orthonormalise` uses float64. The same input gives the same bits on every machine of IEEE
// arithmetic and with all kernels of element::active_isa(): only + - * / and square roots are used.
//
// Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
// NeurIPS 2019, algorithm 1. Any thread; nothing is allocated but matrices of the size of Q, or of
// `orthonormalise`'s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::codec::low_rank {

struct Shape {
  size_t rows = 0, columns = 0, rank = 0;
};

// The transpose of a matrix of `rank` columns: its columns as rows.
std::vector<float> transposed(std::span<const float> matrix, size_t rank);

// p = m q, of which Q^T is given, as rows of M may come in several calls. O(r c k), as the next three.
void multiply(const Shape& shape, std::span<const float> m, std::span<const float> q_rows, std::span<float> p);
// q = m^T p.
void multiply_transposed(const Shape& shape, std::span<const float> m, std::span<const float> p, std::span<float> q);
// m = scale * p q^T.
void expand(const Shape& shape, std::span<const float> p, std::span<const float> q, float scale, std::span<float> m);
// m -= p q^T.
void subtract(const Shape& shape, std::span<const float> p, std::span<const float> q, std::span<float> m);

// sums = left + right. O(values).
void add(std::span<const float> left, std::span<const float> right, std::span<float> sums);

// Makes the `rank` columns of a matrix of `rows` orthonormal (Gram-Schmidt, twice). Those that depend on columns before
// them become zero; returns their numbers. All values are to be finite. O(rows rank^2).
std::vector<size_t> orthonormalise(std::span<float> matrix, size_t rank);

// Column `column` of a matrix of `rank` columns becomes random numbers of mean 0 and variance 1, nearly normal (sums of
// twelve uniform ones): they follow from `seed`, the column and the row alone.
void fill_random(std::span<float> matrix, size_t rank, size_t column, uint64_t seed);

bool are_finite(std::span<const float> values);

}  // namespace banyan::codec::low_rank
