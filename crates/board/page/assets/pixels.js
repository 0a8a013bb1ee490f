// An image whose columns are times, for plots with too many cells to draw them as rectangles.

/** Pixels as wide as the plot, scaled up to its height; written column by column. */
export class Pixels {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.image = null;
  }

  /** An empty image of this size. */
  begin(width, height) {
    if (this.image?.width !== width || this.image.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.image = this.context.createImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
    }
    this.words.fill(0);
  }

  /** Colours the pixels of some rows, from `left` to before `right`; pixels outside are ignored. */
  fill(left, right, top, bottom, pixel) {
    const { width } = this.image;
    const [from, to] = [Math.max(0, left), Math.min(width, right)];
    for (let y = top; y < bottom; y += 1) {
      const row = y * width;
      for (let x = from; x < to; x += 1) this.words[row + x] = pixel;
    }
  }

  /** Paints the image into a rectangle, without smoothing. */
  paint(context, x, y, width, height) {
    this.context.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, x, y, width, height);
  }
}
