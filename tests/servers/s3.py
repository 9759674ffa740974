"""A small S3 client for tests, apart from the one under test: AWS Signature Version 4 over http.client."""
import datetime, hashlib, hmac, http.client, urllib.parse
import xml.etree.ElementTree

REGION = "test-region-1"


class Error(Exception):
    def __init__(self, status, code, message):
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code = status, code


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Client:
    def __init__(self, port, key, secret, region=REGION, host="localhost"):
        self.port, self.key, self.secret, self.region, self.host = port, key, secret, region, host
        self.timeout = 30

    def sign(self, method, path, query, headers, now=None):
        """Authorization of a request whose headers hold all that is to be signed, x-amz-content-sha256 included."""
        now = now or datetime.datetime.now(datetime.timezone.utc)
        date = now.strftime("%Y%m%d")
        headers["x-amz-date"] = now.strftime("%Y%m%dT%H%M%SZ")
        names = sorted(name.lower() for name in headers)
        lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        request = "\n".join([method, path, query, *(f"{name}:{lower[name]}" for name in names), "", ";".join(names),
                             lower["x-amz-content-sha256"]])
        scope = f"{date}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + self.secret).encode()
        for part in (date, self.region, "s3", "aws4_request"):
            key = mac(key, part)
        return (f"AWS4-HMAC-SHA256 Credential={self.key}/{scope},SignedHeaders={';'.join(names)},"
                f"Signature={mac(key, text).hex()}")

    def request(self, method, bucket, key="", query=None, body=b"", headers=None):
        """Returns headers and body; an answer of 300 and more is an Error."""
        path = "/" + bucket + (f"/{quote(key, '/')}" if key else "")
        query = "&".join(f"{quote(name)}={quote(str(value))}" for name, value in sorted((query or {}).items()))
        sent = {"Host": f"{self.host}:{self.port}", "x-amz-content-sha256": hashlib.sha256(body).hexdigest(), **(headers or {})}
        sent["Authorization"] = self.sign(method, path, query, sent)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        try:
            connection.request(method, path + ("?" + query if query else ""), body, sent)
            answer = connection.getresponse()
            got = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            tree = xml.etree.ElementTree.fromstring(got) if got.startswith(b"<?xml") else None
            raise Error(answer.status, tree.findtext("Code") if tree is not None else answer.reason,
                        tree.findtext("Message") if tree is not None else "")
        return {name.lower(): value for name, value in answer.getheaders()}, got

    def make_bucket(self, bucket):
        self.request("PUT", bucket)

    def put(self, bucket, key, body, headers=None):
        """Returns the ETag without its quotes."""
        return self.request("PUT", bucket, key, body=body, headers=headers)[0]["etag"].strip('"')

    def get(self, bucket, key):
        return self.request("GET", bucket, key)[1]

    def head(self, bucket, key):
        return self.request("HEAD", bucket, key)[0]

    def remove(self, bucket, key):
        self.request("DELETE", bucket, key)

    def _pages(self, bucket, query, item, following):
        while True:
            text = self.request("GET", bucket, query=query)[1].decode()
            tree = xml.etree.ElementTree.fromstring(text)
            name = tree.tag[:tree.tag.index("}") + 1] if "}" in tree.tag else ""
            for row in tree.iter(name + item):
                yield {field.tag[len(name):]: field.text or "" for field in row}
            if tree.findtext(name + "IsTruncated") != "true":
                return
            query = {**query, **{to: tree.findtext(name + of) for to, of in following.items()}}

    def list(self, bucket, prefix=""):
        """key -> size"""
        rows = self._pages(bucket, {"list-type": 2, "prefix": prefix}, "Contents", {"continuation-token": "NextContinuationToken"})
        return {row["Key"]: int(row["Size"]) for row in rows}

    def uploads(self, bucket, prefix=""):
        """(key, upload id) of the multipart uploads that were begun and neither completed nor aborted."""
        rows = self._pages(bucket, {"uploads": "", "prefix": prefix}, "Upload",
                           {"key-marker": "NextKeyMarker", "upload-id-marker": "NextUploadIdMarker"})
        return [(row["Key"], row["UploadId"]) for row in rows]

    def begin_upload(self, bucket, key):
        text = self.request("POST", bucket, key, {"uploads": ""})[1].decode()
        return text.split("<UploadId>")[1].split("<")[0]

    def put_part(self, bucket, key, upload, number, body):
        return self.request("PUT", bucket, key, {"partNumber": number, "uploadId": upload}, body)[0]["etag"].strip('"')

    def complete(self, bucket, key, upload, etags):
        parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in enumerate(etags, 1))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        return self.request("POST", bucket, key, {"uploadId": upload}, body)

    def abort(self, bucket, key, upload):
        self.request("DELETE", bucket, key, {"uploadId": upload})

    def empty(self, bucket, prefix=""):
        for key, upload in self.uploads(bucket, prefix):
            self.abort(bucket, key, upload)
        for key in self.list(bucket, prefix):
            self.remove(bucket, key)
