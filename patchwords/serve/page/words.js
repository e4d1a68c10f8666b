// What the page says, in English and in Chinese.

const WORDS = {
  en: {
    skip: "To the exhibit",
    model: "Model",
    language: "Language",
    light: "Light or dark",
    auto: "Auto",
    day: "Light",
    night: "Dark",
    title: "An image is worth 16×16 words",
    lead: "Give it a picture. It is cut into patches, the patches are read like the words of a sentence, and under your pointer each word shows what it attends to.",
    token: "This service wants its token",
    enter: "Enter",
    refused: "That was not the token.",
    give: "Give a picture",
    choose: "Choose a picture",
    drop: "or drop it anywhere, or paste it",
    begin: "or begin with one that we drew",
    given: "given",
    daisy: "Daisy",
    tulip: "Tulip",
    goldfish: "Goldfish",
    lights: "Traffic light",
    digit: "A seven",
    pasted: "pasted picture",
    about: "{name}: pictures of {image} pixels{patches}{layers}, {classes}",
    aboutPatches: ", {rows}×{cols} patches",
    aboutLayers: ", {layers} of {heads}",
    oneLayer: "1 layer",
    layers: "{count} layers",
    oneHead: "1 head",
    heads: "{count} heads",
    oneClass: "1 class",
    classes: "{count} classes",
    words: "The picture, as words",
    equation1: "equation 1",
    cells: "Patches of the picture: move with the arrow keys",
    cell: "row {row}, column {col}",
    wordsNote: "What the model saw, cut into N = {count} patches of {cell} pixels. Each is flattened, projected by E to a vector and given its position. This row is all that the model reads.",
    wholeNote: "What the model saw: this one reads no words, but slides its filters over the whole picture or looks through windows.",
    answer: "The answer",
    equation4: "equation 4",
    sum: "The most probable of {count}. Probabilities of all classes sum to one.",
    each: "The best of {count}. This model judges each class on its own, so they need not sum to one.",
    rollout: "Where it looks",
    figure6: "figure 6",
    rolloutNote: "Attention rollout: averaged over the heads and followed back through all layers. Bright is where the answer comes from.",
    evidence: "What speaks for it",
    evidenceTag: "class map",
    evidenceNote: "Where the last feature map adds to the class “{label}”. What speaks against it is left out.",
    attention: "What this patch attends to",
    equation6: "equation 6",
    looks: "Row {row}, column {col} looks mostly at row {toRow}, column {toCol} ({share}).",
    itself: "Row {row}, column {col} looks mostly at itself ({share}).",
    special: " {share} go to {tokens}.",
    class: "the class token",
    tokens: "the special tokens",
    layer: "Layer",
    head: "Head",
    mean: "mean",
    headNumber: "head {head}",
    attentionNote: "The marked patch asks, and all others are as bright as it attends to them. Point at any patch, choose any layer and head.",
    oneByOne: "There are too many patches to have all of them at hand: each is asked for when you rest on it.",
    keptMeans: "To keep this file small it holds the mean over the heads of each layer, not every head.",
    keptNothing: "To keep this file small it holds no attention of single patches; `patchwords serve` shows it.",
    positions: "Which places are alike",
    figure7centre: "figure 7, centre",
    positionsNote: "How similar the marked patch's position embedding is to all others (cosine). Nothing tells the model what a row or a column is; after training on enough pictures, near places are alike.",
    noPositions: "This model adds nothing to a patch for its place.",
    manyPositions: "There are too many patches to compare each with all others here.",
    alike: "from {low} to {high}",
    distances: "How far each head looks",
    figure7right: "figure 7, right",
    distancesNote: "A dot a head: the mean distance to what its patches attend to, in this picture. Choose one by clicking.",
    far: "Layer {layer}, {head}: {pixels} pixels",
    axisLayer: "layer",
    axisPixels: "pixels",
    lackAttention: "This model has no attention between all patches, so there are no layers and heads to choose here. What it can show is beside.",
    lackEverything: "This model cannot show where it looks. Its answer is all there is.",
    rolloutLabel: "The picture, bright where the model looks",
    attentionLabel: "The picture, bright where the marked patch looks",
    positionsLabel: "Similarity of the marked patch's position to all others",
    plotLabel: "Mean attention distance by layer and head",
    paper: "Equations and figures are those of “An Image is Worth 16x16 Words” (Dosovitskiy et al., 2021).",
    private: "Your picture goes to this service and nowhere else.",
    privateKept: "All that you see is in this file. It asks nobody.",
    unreachable: "The service does not answer: is it still running?",
    unreadable: "This picture cannot be used, choose another one: {error}",
    tooLarge: "{error}",
    tooMany: "{error}",
    failed: "{error}",
  },
  zh: {
    skip: "跳到展示区",
    model: "模型",
    language: "语言",
    light: "明暗",
    auto: "自动",
    day: "浅色",
    night: "深色",
    title: "一张图像，抵得上 16×16 个词",
    lead: "给它一张图片：图片先被切成一个个图像块，再像句子里的词一样被读入模型。指向任意一个图像块，就能看到它在关注什么。",
    token: "此服务需要访问令牌",
    enter: "进入",
    refused: "令牌不正确。",
    give: "提供图片",
    choose: "选择图片",
    drop: "也可以拖到页面任意位置，或直接粘贴",
    begin: "或者先试试我们画的图",
    given: "原图",
    daisy: "雏菊",
    tulip: "郁金香",
    goldfish: "金鱼",
    lights: "红绿灯",
    digit: "数字 7",
    pasted: "粘贴的图片",
    about: "{name}：输入 {image} 像素{patches}{layers}，{classes}",
    aboutPatches: "，{rows}×{cols} 个图像块",
    aboutLayers: "，{layers}、每层 {heads}",
    oneLayer: "1 层",
    layers: "{count} 层",
    oneHead: "1 个注意力头",
    heads: "{count} 个注意力头",
    oneClass: "1 个类别",
    classes: "{count} 个类别",
    words: "把图片读成词",
    equation1: "式 1",
    cells: "图像块：用方向键移动",
    cell: "第 {row} 行第 {col} 列",
    wordsNote: "模型实际看到的图片，被切成 N = {count} 个 {cell} 像素的图像块。每一块展平后由 E 投影成向量，再加上位置编码；模型读入的就是这一串向量，别无其他。",
    wholeNote: "模型实际看到的图片。这个模型不按词来读图，而是用卷积核扫过整张图，或只在窗口内计算注意力。",
    answer: "模型的回答",
    equation4: "式 4",
    sum: "{count} 个类别中概率最高的几个；所有类别的概率之和为 1。",
    each: "{count} 个类别中得分最高的几个；该模型对每个类别单独判断，概率之和不必为 1。",
    rollout: "模型在看哪里",
    figure6: "图 6",
    rolloutNote: "注意力逐层回溯（attention rollout）：各头取平均，再穿过所有层追溯到输入。越亮的地方，对回答的贡献越大。",
    evidence: "判断的依据",
    evidenceTag: "类别图",
    evidenceNote: "最后一层特征图中支持类别“{label}”的位置；不支持的部分不显示。",
    attention: "这个图像块在关注什么",
    equation6: "式 6",
    looks: "第 {row} 行第 {col} 列最关注第 {toRow} 行第 {toCol} 列（{share}）。",
    itself: "第 {row} 行第 {col} 列最关注它自己（{share}）。",
    special: "另有 {share} 落在{tokens}上。",
    class: "类别标记",
    tokens: "特殊标记",
    layer: "层",
    head: "注意力头",
    mean: "平均",
    headNumber: "第 {head} 个头",
    attentionNote: "由标出的图像块发出查询，它越关注哪里，哪里就越亮。可以指向任意图像块，并选择任意一层、任意一个头。",
    oneByOne: "图像块太多，无法一次全部取回：停在哪一块上，就查询哪一块。",
    keptMeans: "为控制文件大小，这里每层只保存各头注意力的平均值。",
    keptNothing: "为控制文件大小，这里没有保存单个图像块的注意力；可用 `patchwords serve` 查看。",
    positions: "哪些位置彼此相似",
    figure7centre: "图 7 中",
    positionsNote: "标出的图像块的位置编码与其他所有位置编码的余弦相似度。没有人告诉模型什么是行、什么是列；用足够多的图片训练之后，相近的位置会变得相似。",
    noPositions: "这个模型不给图像块加位置编码。",
    manyPositions: "图像块太多，这里不逐一比较。",
    alike: "{low} 到 {high}",
    distances: "每个头看多远",
    figure7right: "图 7 右",
    distancesNote: "每个点是一个头：在这张图片上，图像块与其关注对象之间的平均距离。点击即可选中。",
    far: "第 {layer} 层，{head}：{pixels} 像素",
    axisLayer: "层",
    axisPixels: "像素",
    lackAttention: "这个模型没有全部图像块之间的注意力，因此没有层和头可选；它能展示的都在旁边。",
    lackEverything: "这个模型无法显示它在看哪里，只有上面的回答。",
    rolloutLabel: "图片，模型关注之处较亮",
    attentionLabel: "图片，标出的图像块所关注之处较亮",
    positionsLabel: "标出的图像块的位置编码与其他位置的相似度",
    plotLabel: "各层各头的平均注意力距离",
    paper: "式与图的编号均出自论文 An Image is Worth 16x16 Words（Dosovitskiy 等，2021）。",
    private: "图片只会发送到本服务，不会去往别处。",
    privateKept: "所见的一切都在这个文件里，不访问任何网络。",
    unreachable: "服务没有响应，它还在运行吗？",
    unreadable: "无法使用这张图片，请换一张（{error}）",
    tooLarge: "图片太大，请换一张小一些的（{error}）",
    tooMany: "排队的请求太多，请稍后再试（{error}）",
    failed: "服务没能完成（{error}）",
  },
};

let spoken = (navigator.languages || [navigator.language]).some((tag) => /^zh/i.test(tag)) ? "zh" : "en";
const listeners = [];

export function say(key, values = {}) {
  return WORDS[spoken][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

export function percent(share) {
  const digits = share > 0 && share < 0.001 ? 2 : 1;
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

// Whoever has said something that depends on the moment says it again in the other language.
export function whenSpoken(listener) {
  listeners.push(listener);
}

export function speak(language = spoken) {
  spoken = language;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  document.title = `patchwords · ${say("title")}`;
  for (const element of document.querySelectorAll("[data-word]")) element.textContent = say(element.dataset.word);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", say(element.dataset.label));
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === language));
  }
  for (const listener of listeners) listener();
}

export function switches() {
  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => speak(button.dataset.language));
  }
  const themes = [...document.querySelectorAll("button[data-theme]")];
  const shine = (theme) => {
    document.documentElement.dataset.theme = theme;
    for (const button of themes) button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
  };
  for (const button of themes) button.addEventListener("click", () => shine(button.dataset.theme));
  shine("auto");
  speak();
}
