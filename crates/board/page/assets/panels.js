export class Panels { constructor(){} take(){} draw(){} }
