// The page's data: arrays come as base64 and are unpacked when first asked for.

const ARRAYS = { f32: Float32Array, f64: Float64Array, i32: Int32Array, u8: Uint8Array };
const unpackedArrays = new WeakMap();

/** The typed array of a packed one; an empty one for nothing. */
function unpack(packed) {
  if (!packed) return new Float64Array(0);
  let array = unpackedArrays.get(packed);
  if (!array) {
    const [kind, text] = Object.entries(packed)[0];
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    array = new ARRAYS[kind](bytes.buffer);
    unpackedArrays.set(packed, array);
  }
  return array;
}

/** The place of the value nearest to x in a rising array. */
function nearest(array, x) {
  let low = 0;
  let high = array.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (array[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(array[low] - x) <= Math.abs(array[high] - x) ? low : high;
}

/** The greatest finite value of some arrays, or the fallback. */
function greatest(arrays, fallback) {
  let most = -Infinity;
  for (const array of arrays) {
    for (const value of array) if (Number.isFinite(value) && value > most) most = value;
  }
  return most === -Infinity ? fallback : most;
}

// What the page shows now, and what the viewer has chosen.
const page = { data: null, charts: {}, ready: false, updates: 0 };
const chosen = {
  axis: "time_s",
  hidden: new Set(),
  more: null,
  run: 0,
  round: 0,
  span: "round",
  heat: "bandwidth_hz",
  cluster: "all",
  studies: {},
};
globalThis.fedrtPage = page;
