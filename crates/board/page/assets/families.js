// The metrics of a stream, a client or a cache: families of samples, as for Prometheus.

/** Reads the families of one source. */
export class Families {
  constructor(families) {
    this.byName = new Map(families.map((family) => [family.name, family]));
  }

  /** The sum of the samples that have these labels; `NaN` if there is no such family. */
  total(name, labels = {}) {
    const family = this.byName.get(name);
    return family === undefined ? NaN : sumOf(samplesOf(family, labels));
  }

  /** The sums by the value of one label. */
  by(name, label, labels = {}) {
    const family = this.byName.get(name);
    const sums = new Map();
    for (const sample of family === undefined ? [] : samplesOf(family, labels)) {
      const value = labelOf(sample, label);
      if (value !== undefined) sums.set(value, (sums.get(value) ?? 0) + sample.value);
    }
    return sums;
  }

  /** A quantile of a summary, in nanoseconds: the greatest of all that have these labels. */
  quantile(name, quantile, labels = {}) {
    const family = this.byName.get(name);
    if (family === undefined) return NaN;
    const counted = family.samples.filter((it) => it.name.endsWith("_count") && hasLabels(it, labels));
    if (counted.length > 0 && sumOf(counted) === 0) return NaN;
    const values = samplesOf(family, { ...labels, quantile }).map((it) => it.value);
    return values.length === 0 ? NaN : Math.max(...values) * 1e9;
  }
}

function labelOf(sample, label) {
  return sample.labels.find(([name]) => name === label)?.[1];
}

function hasLabels(sample, labels) {
  return Object.entries(labels).every(([name, value]) => labelOf(sample, name) === value);
}

/** The samples of the family itself, not a summary's sum and count. */
function samplesOf(family, labels) {
  return family.samples.filter((it) => it.name === family.name && hasLabels(it, labels));
}

function sumOf(samples) {
  return samples.reduce((sum, it) => sum + it.value, 0);
}
