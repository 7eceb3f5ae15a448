// The first two principal components of some rows, by power iteration on their Gram matrix.

import { dot } from "./vectors.js";

const MOST_STEPS = 1000;
const PRECISION = 1e-12;

/** Map rows (n, width) to `{points, shares}`: n pairs of coordinates, two parts of the variance. */
export function pca(rows) {
  const gram = gramOfDifferences(rows);
  const variance = gram.reduce((sum, row, i) => sum + row[i], 0);
  const first = leading(gram, null);
  const second = leading(gram, first.direction);
  const scales = [first, second].map(({ value }) => Math.sqrt(Math.max(0, value)));
  const points = rows.map((_, i) => [first.direction[i] * scales[0], second.direction[i] * scales[1]]);
  const shares = [first, second].map(({ value }) => (variance > 0 ? Math.max(0, value) / variance : 0));
  return { points, shares };
}

/** Return points with the signs that keep them nearest to `before`: a sign of PCA means nothing. */
export function likeBefore(points, before) {
  const comparable = before !== null && before.length === points.length;
  const signs = [0, 1].map((axis) => {
    const other = (i) => (comparable ? before[i][axis] : points[i][axis] ** 2);
    const agreement = points.reduce((sum, point, i) => sum + point[axis] * other(i), 0);
    return agreement < 0 ? -1 : 1;
  });
  return points.map((point) => point.map((value, axis) => value * signs[axis]));
}

/** Map rows to the inner products of their differences from the mean row: (n, n). */
function gramOfDifferences(rows) {
  const mean = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  const differences = rows.map((row) => row.map((value, i) => value - mean[i]));
  const gram = rows.map(() => new Float64Array(rows.length));
  differences.forEach((a, i) => {
    for (let j = 0; j <= i; j += 1) gram[i][j] = gram[j][i] = dot(a, differences[j]);
  });
  return gram;
}

/** Return the largest eigenvalue and its unit vector, among those orthogonal to `excluded`. */
function leading(gram, excluded) {
  let direction = unit(orthogonal(startOf(gram.length), excluded));
  let value = 0;
  for (let step = 0; step < MOST_STEPS; step += 1) {
    const product = orthogonal(Float64Array.from(gram, (row) => dot(row, direction)), excluded);
    value = dot(product, direction);
    const next = unit(product);
    const change = next.reduce((sum, x, i) => sum + (x - direction[i]) ** 2, 0);
    direction = next;
    if (change < PRECISION ** 2) break;
  }
  return { value, direction };
}

/** Return a fixed vector without symmetries, so that the same text gives the same map. */
function startOf(length) {
  return Float64Array.from({ length }, (_, i) => Math.sin(1 + 2.399963 * i));
}

function orthogonal(vector, excluded) {
  if (excluded === null) return vector;
  const part = dot(vector, excluded);
  return vector.map((value, i) => value - part * excluded[i]);
}

function unit(vector) {
  const length = Math.sqrt(dot(vector, vector));
  return length > 0 ? vector.map((value) => value / length) : vector;
}
