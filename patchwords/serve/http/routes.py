"""The table of all routes: what the router knows, OpenAPI describes, and /docs shows."""

from starlette.responses import Response

from patchwords.serve.http import answers, schemas
from patchwords.serve.http.documents import docs, docs_style, file, page
from patchwords.serve.http.door import Asked, Door
from patchwords.serve.http.health import Health, told
from patchwords.serve.http.metrics import TYPE
from patchwords.serve.http.openapi import described
from patchwords.serve.http.parameter import Parameter
from patchwords.serve.http.said import said
from patchwords.serve.http.service import Service

HTML, CSS, ANY = "text/html", "text/css", "*/*"
FAILING = 503

MODEL = Parameter(name="model", kind="string", says="Which model; may be left out where there is one.")
TOP = Parameter(name="top", says="How many classes, the most probable first.", otherwise=5)
LAYER = Parameter(name="layer", says="The layer, counted from 1.", needed=True)
HEAD = Parameter(name="head", says="The head, counted from 1; 0 is the mean of all.", least=0, needed=True)
ROW = Parameter(name="row", says="The row of the patch that looks, counted from 1; of all patches if left out.")
COLUMN = Parameter(name="column", says="Its column.")


def doors(service: Service) -> tuple[Door, ...]:
    """Each a method, a path and who answers."""
    health = Health(service)

    async def look(service: Service, asked: Asked) -> Response:
        wrong = await health.look()
        return said(told(service, wrong), FAILING if wrong or service.leaving else 200)

    async def numbers(service: Service, asked: Asked) -> Response:
        return Response(service.tally.text(), headers={"Content-Type": TYPE})

    async def schema(service: Service, asked: Asked) -> Response:
        return said(described(table))

    async def shown(service: Service, asked: Asked) -> Response:
        return docs(table)

    table = (
        Door(
            method="POST",
            path="/predict",
            says="The classes of a picture and how probable they are.",
            handler=answers.predict,
            takes=(MODEL, TOP),
            body="picture",
            gives=schemas.PREDICTION,
            refuses=(404, 429),
        ),
        Door(
            method="POST",
            path="/models/{name}",
            says="The same in the shape of Hugging Face's image classification, for its clients.",
            handler=answers.classify,
            body="picture or JSON",
            gives=schemas.SCORES,
            refuses=(404, 429),
        ),
        Door(
            method="POST",
            path="/embed",
            says="The vector that the classifier sees.",
            handler=answers.embed,
            takes=(MODEL,),
            body="picture",
            gives=schemas.EMBEDDING,
            refuses=(404, 429),
        ),
        Door(
            method="POST",
            path="/examine",
            says="The classes, what the model saw, where it looked, and how far each head looks.",
            handler=answers.examine,
            takes=(MODEL, TOP),
            body="picture",
            gives=schemas.EXAMINATION,
            refuses=(404, 429),
        ),
        Door(
            method="POST",
            path="/attention",
            says="What patches attend to, in one layer and head.",
            handler=answers.attention,
            takes=(MODEL, LAYER, HEAD, ROW, COLUMN),
            body="picture",
            gives=schemas.ATTENTION,
            refuses=(404, 429),
        ),
        Door(
            method="GET",
            path="/positions",
            says="How alike the position embeddings of the patches are.",
            handler=answers.positions,
            takes=(MODEL,),
            gives=schemas.POSITIONS,
            refuses=(404, 429),
        ),
        Door(method="GET", path="/models", says="The models.", handler=answers.models, gives=schemas.MODELS),
        Door(
            method="GET",
            path="/healthz",
            says="Runs every model, and says whether all is well.",
            handler=look,
            gives=schemas.HEALTH,
            refuses=(FAILING,),
            open_to_all=True,
        ),
        Door(method="GET", path="/metrics", says="Numbers for Prometheus.", handler=numbers, kind="text/plain"),
        Door(
            method="GET",
            path="/openapi.json",
            says="These routes.",
            handler=schema,
            gives={"type": "object"},
            open_to_all=True,
        ),
        Door(method="GET", path="/docs", says="These routes, to be read.", handler=shown, kind=HTML, open_to_all=True),
        Door(method="GET", path="/docs.css", says="How they look.", handler=docs_style, kind=CSS, open_to_all=True),
        Door(method="GET", path="/", says="The page.", handler=page, kind=HTML, open_to_all=True),
        Door(
            method="GET",
            path="/page/{file}",
            says="Its files.",
            handler=file,
            kind=ANY,
            refuses=(404,),
            open_to_all=True,
        ),
    )
    return table
