// The arithmetic of the page. Numbers are float64, computed from the float32 of the server.

/** Map raw scalars to weights that sum to 1. */
export function softmax(scalars) {
  const most = Math.max(...scalars);
  const powers = scalars.map((scalar) => Math.exp(scalar - most));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/**
 * Return one factor a layer. Every selection is a weighted sum of the layers: one layer, their
 * average, or the mixture `gamma * sum(softmax(weights)[k] * layer k)`.
 */
export function factors(selection, layers) {
  if (selection.kind === "layer")
    return Array.from({ length: layers }, (_, layer) => Number(layer === selection.layer));
  if (selection.kind === "average") return new Array(layers).fill(1 / layers);
  return softmax(selection.weights).map((weight) => selection.gamma * weight);
}

/** Map one array (layers, tokens, width) a sentence to rows (all tokens, width). */
export function combined(tensors, layerFactors) {
  return tensors.flatMap(({ shape: [layers, tokens, width], values }) =>
    Array.from({ length: tokens }, (_, token) => {
      const row = new Float64Array(width);
      for (let layer = 0; layer < layers; layer += 1) {
        if (layerFactors[layer] === 0) continue;
        const start = (layer * tokens + token) * width;
        for (let i = 0; i < width; i += 1) row[i] += layerFactors[layer] * values[start + i];
      }
      return row;
    }),
  );
}

/** Subtract the centre of the same selection from each row; `means` has one list a layer. */
export function centred(rows, means, layerFactors) {
  const centre = means[0].map((_, i) =>
    layerFactors.reduce((sum, factor, layer) => sum + factor * means[layer][i], 0),
  );
  return rows.map((row) => row.map((value, i) => value - centre[i]));
}

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

export const norm = (row) => Math.sqrt(dot(row, row));

/** Return the cosine of each row with one of them; 0 where a vector is zero. */
export function cosines(rows, reference) {
  const length = norm(rows[reference]);
  return rows.map((row) => {
    const lengths = norm(row) * length;
    return lengths === 0 ? 0 : Math.max(-1, Math.min(1, dot(row, rows[reference]) / lengths));
  });
}
