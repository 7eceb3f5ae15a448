// Reads safetensors: the smallest response with float32 as the network computed them, to the bit.

/** Map a response body to `{metadata, tensors}`; tensor i is `{shape, values}` of sentence i. */
export function parse(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const { __metadata__: metadata, ...entries } = header;
  const tensors = Object.keys(entries).map((_, index) => {
    const { dtype, shape, data_offsets: [start, end] } = entries[index];
    if (dtype !== "F32") throw new TypeError(`tensor ${index} is ${dtype}, expected F32`);
    return { shape, values: new Float32Array(buffer.slice(8 + length + start, 8 + length + end)) };
  });
  return { metadata, tensors };
}
